"""What Slurm would do with a plan now."""
