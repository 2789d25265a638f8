"""Slurm's commands as typed functions; besides the sandbox, the only package that starts processes.

Each module is named after the command that it runs: pure ``parse_…`` functions read what
``process.run`` returns. ``process.Queries`` runs several commands at once, ``pending_reasons``
explains why a job waits, and ``fields`` and ``job_id`` parse single fields.

Functions that query Slurm raise a SlurmError. Times are seconds since the epoch, durations are
seconds (units.UNLIMITED: no limit), and None means unknown. A job that is missing from an answer is
only missing; that says nothing about how it ended.
"""
