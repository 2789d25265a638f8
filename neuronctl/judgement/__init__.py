"""The gate before a submission: judges a plan once, by what Slurm and the catalog say.

``ask.Question`` queries Slurm once; ``judgement`` judges, and its ``verdict`` is one sentence.
``partitions`` judges a plan for each partition (``-p auto``, ``partitions --live``).
"""
