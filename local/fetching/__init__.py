"""Outputs of many hosts brought to the laptop: manifests always, samples on request, whole and unmixed."""
