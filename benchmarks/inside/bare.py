"""The smallest program that shows a job on a terminal: bare.py SQUEUE.

It imports click, and rich while squeue runs, and draws a table with one row. SQUEUE is JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

importlib.import_module("click")
squeue = subprocess.Popen(json.loads(sys.argv[1]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
console, table = importlib.import_module("rich.console"), importlib.import_module("rich.table")
assert squeue.communicate()[0]
rows = table.Table("JOB", "STATE", box=None)
rows.add_row("4711", "RUNNING")
console.Console(markup=False, highlight=False, emoji=False).print(rows)
sys.stdout.flush()
os._exit(0)
