"""Predicts what Slurm would do with a plan now: refuse it, let it wait, or start it. Pure.

A ``snapshot`` is one reading of Slurm; ``plan_on_cluster`` compares a plan with it. ``limits``,
``start_conditions``, and ``free_nodes`` yield outcomes; ``forecast`` collects them once per job.
"""
