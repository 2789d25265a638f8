"""What a job did with its GPUs, cores, and memory: its samples, figures, and advice."""
