"""What Slurm says now, held against a plan before it is submitted.

``ask.ask_live`` asks Slurm once; everything else here is pure. ``facts`` lays Slurm's own limits
over the catalog's, ``waits`` tells what a job would wait for, ``verdict`` says it in one word.
"""
