"""What neuronctl.common.frozen saves over dataclasses, on every Python on PATH (python3.9, …).

Measured is the import of the modules that `status` reads jobs with, which define their classes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from typing import Dict, List

from benchmarks.peers import CHECKOUT

KINDS = ("frozen", "dataclasses")

_PROGRAM = """
import contextlib, dataclasses, functools, json, re, sys, time, typing
checkout, kind = sys.argv[1:]
sys.path.insert(0, checkout)
if kind == "dataclasses":
    sys.modules["neuronctl.common.frozen"] = dataclasses
begun = time.process_time()
import neuronctl.catalog.model, neuronctl.records.store, neuronctl.tracking.lookup
print(1000 * (time.process_time() - begun))
"""


def measure(rounds: int) -> Dict[str, Dict[str, List[float]]]:
    """Milliseconds of processor time, by the Python's name and kind, in turns."""
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        for minor in range(9, 20):
            name = f"python3.{minor}"
            python = sys.executable if minor == sys.version_info.minor else shutil.which(name)
            argv = [str(python), "-I", "-S", "-X", f"pycache_prefix={folder}", "-c", _PROGRAM]
            # pyenv has a python3.9 on PATH that only says that another version is active.
            if python is not None and all(_took(argv, kind) for kind in KINDS):
                times = [{kind: _took(argv, kind) for kind in KINDS} for _ in range(rounds)]
                measured[name] = {kind: [took[kind] for took in times] for kind in KINDS}
    return measured


def _took(argv: List[str], kind: str) -> float:
    done = subprocess.run([*argv, str(CHECKOUT), kind], capture_output=True, text=True)
    return round(float(done.stdout or 0), 3)
