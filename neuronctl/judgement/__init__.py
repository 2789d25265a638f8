"""The gate before a submission: judges a plan once, by what Slurm and the catalog say.

``ask.Question`` queries Slurm once; ``judgement`` judges, and its ``verdict`` is one sentence.
``partition_choice`` (``-p auto``) and ``partition_board`` (``partitions --live``) judge a plan for
each partition.
"""
