"""neuronctl beside what people would use instead, measured on a real Slurm: ``make bench``.

peers.py installs all that is measured, cluster.py makes the cluster and fills it, cases.py says
what is run beside what; inside/ runs in the sandbox and only measures. definitions.py needs no
Slurm. figures.py does the sums and judges, report.py and plot.py write docs/reference/benchmarks.*.
"""
