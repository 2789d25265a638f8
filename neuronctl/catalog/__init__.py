"""The partition catalog: which clusters and partitions exist, their limits, and who says so."""
