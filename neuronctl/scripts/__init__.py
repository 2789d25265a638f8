"""Anybody's batch script, read as Slurm and bash read it. Nothing here judges."""
