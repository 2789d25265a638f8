"""Slurm's commands as typed functions; besides the sandbox, the only package that starts processes.

A module is named after the command it speaks to: pure ``…_argv`` and ``parse_…`` functions stand
around one call of ``process.run``. ``snapshot`` asks several of them at once, ``pending_reasons``
says in plain words why a job waits, ``fields`` and ``job_id`` read what Slurm prints in one field.

What asks Slurm raises SlurmUnavailableError (exit 6: no command, no controller, no answer in
time) or SlurmRefusedError (exit 7: Slurm's own words). Times are seconds since the epoch,
durations seconds (units.UNLIMITED: no limit), and None is "not known". A job that is absent from
an answer is absent, nothing more.
"""
