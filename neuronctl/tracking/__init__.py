"""Job status: query Slurm, merge the answers, and follow jobs until they end."""
