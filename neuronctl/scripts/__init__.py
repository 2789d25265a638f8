"""Read anybody's batch script as Slurm and bash read it, without judging it."""
