"""What Slurm would do with a plan now: refuse it, make it wait, or what is not known. Pure.

``snapshot`` is one look at Slurm, ``plan_on_cluster`` a plan held against it. ``limits``,
``start_conditions`` and ``free_nodes`` yield outcomes; ``forecast`` gathers them, once for a job.
"""
