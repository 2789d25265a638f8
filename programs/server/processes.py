"""Processes of this job."""

import contextlib
import os


def exit_code(status):
    """Return a process's exit code as a shell has it: 128 + N for signal N."""
    return status if status >= 0 else 128 - status


def signal_tree(first, number):
    """Send a signal to a process and to all its descendants, the youngest generation first."""
    children = {}  # by parent
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            _, _, fields = file.read().rpartition(")")  # state, parent, ...
            parent = int(fields.split()[1])
            children.setdefault(parent, []).append(int(pid))
    tree = [first]
    for pid in tree:  # the loop also comes to what it adds
        tree += children.get(pid, [])
    for pid in reversed(tree):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
