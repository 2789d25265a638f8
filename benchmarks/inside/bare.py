"""Bare programs: the libraries and the Slurm commands of a neuronctl command, and nothing else.

``bare.py submit COMMANDS`` imports click, asks Slurm part of what the gate asks while it imports
jinja2, and submits; it checks, renders and records nothing. ``bare.py table SQUEUE`` imports click,
imports rich while squeue runs, and draws a table with one row. COMMANDS and SQUEUE are JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from typing import List


def ask(argv: List[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def submit(commands: List[List[str]]) -> None:
    *questions, sbatch = commands
    asked = [ask(argv) for argv in questions]
    importlib.import_module("jinja2")
    for one in asked:
        one.communicate()
    done = subprocess.run(sbatch, input=b"#!/bin/sh\n", stdout=subprocess.PIPE, check=True)
    sys.stdout.write(done.stdout.decode())


def table(argv: List[str]) -> None:
    asked = ask(argv)
    from rich.console import Console
    from rich.table import Table

    assert asked.communicate()[0]
    drawn = Table("JOB", "STATE", box=None)
    drawn.add_row("4711", "RUNNING")
    Console(markup=False, highlight=False, emoji=False).print(drawn)


if __name__ == "__main__":
    importlib.import_module("click")
    (submit if sys.argv[1] == "submit" else table)(json.loads(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)
