"""Pipelines: several jobs of one file, each of which may wait for others."""
