"""The dataset as numbered samples, as tokens, and as shards."""
