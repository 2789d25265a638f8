"""Slurm's own grammars: time, memory, host lists, log-file patterns."""

from __future__ import annotations

UNLIMITED = -1
"""A wall time without limit, in place of a number of seconds."""
