"""Programs that import the libraries of a command, ask Slurm no more than it does, and stop.

``bare.py submit COMMANDS`` imports click, asks Slurm a part of what the gate asks while jinja2 is
imported, and submits; it judges nothing, renders nothing and records nothing. ``bare.py table
SQUEUE`` imports click, and rich while squeue runs, and draws a table of one row. COMMANDS and
SQUEUE are JSON.
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
