"""neuronctl: from one description of a job to a checked, submitted and tracked Slurm job."""

__version__ = "0.1.0"
