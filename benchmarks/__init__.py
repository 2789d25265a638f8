"""neuronctl compared with what people would use instead, on a real Slurm: ``make bench``.

peers.py installs what is measured, cluster.py makes the cluster and fills it, cases.py says what is
run and compared; inside/ runs in the sandbox and only measures.
report.py calculates, has the targets, and writes docs/reference/benchmarks.md.
"""
