"""Adapters that turn prompts into hidden states."""
