"""The gate before a submission: what Slurm and the catalog say of a plan, judged once.

``ask.ask_slurm`` asks Slurm once; ``judgement`` judges, its ``verdict`` is one sentence.
``partition_choice`` (``-p auto``) and ``partition_board`` (``partitions --live``) judge a plan for
each partition.
"""
