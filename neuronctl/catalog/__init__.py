"""The partition catalog: clusters, partitions, and limits, each with its source."""
