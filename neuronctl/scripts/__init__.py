"""Anybody's batch script, read as Slurm and as bash read it. Nothing here judges."""
