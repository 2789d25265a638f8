"""Runs commands in turns, A B A B, and prints the time and the peak memory of each run.

Reads JSON from standard input:

    {"rounds": 30, "warmup": 2, "cases": [{"name": …, "argv": […], "env": {…}, "tty": false}]}

and prints {NAME: {"ms": [wall time, milliseconds], "kb": [peak memory, kilobytes]}}. A command
that fails ends it, with what the command printed.

It imports only what is small and starts quickly: Linux counts a process's peak memory from before
its exec, so that no figure can be below this process's memory.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

MOST_KEPT = 4000


class CommandFailed(Exception):
    """A command exited with a code other than 0."""


def time_command(
    argv: List[str], env: Dict[str, str], output: int, errors: int
) -> Tuple[float, int]:
    """Run a command; return its wall time in milliseconds and its peak memory in kilobytes.

    output, errors: the descriptors of its output; ``errors`` is a file that can be read again.
    """
    os.ftruncate(errors, 0)
    os.lseek(errors, 0, os.SEEK_SET)
    actions = [
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, errors, 2),
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
    ]
    begin = time.monotonic()
    pid = os.posix_spawnp(argv[0], argv, env, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - begin
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        os.lseek(errors, 0, os.SEEK_SET)
        text = os.read(errors, MOST_KEPT).decode(errors="replace")
        raise CommandFailed(f"{' '.join(argv)}\nended with {code}:\n{text}")
    return 1000 * seconds, usage.ru_maxrss


class Screen:
    """A terminal of 160 columns whose output nobody sees."""

    def __init__(self) -> None:
        import fcntl
        import struct
        import termios

        self.master, self.terminal = os.openpty()
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, 160, 0, 0))
        os.set_inheritable(self.terminal, False)
        actions = [
            (os.POSIX_SPAWN_DUP2, self.master, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
        ]
        self.reader = os.posix_spawnp("cat", ["cat"], os.environ, file_actions=actions)
        os.close(self.master)

    def close(self) -> None:
        """Close the terminal and wait for its reader."""
        os.close(self.terminal)
        os.waitpid(self.reader, 0)


def main() -> None:
    """Time the cases in turn and print the figures as JSON."""
    request = json.load(sys.stdin)
    dev_null = os.open("/dev/null", os.O_WRONLY)
    errors = os.memfd_create("errors")
    screen = Screen() if any(case.get("tty") for case in request["cases"]) else None
    measured: Dict[str, Any] = {case["name"]: {"ms": [], "kb": []} for case in request["cases"]}
    try:
        for run in range(request["warmup"] + request["rounds"]):
            for case in request["cases"]:
                env = {**os.environ, **case.get("env", {})}
                output = screen.terminal if screen and case.get("tty") else dev_null
                wall, memory = time_command(case["argv"], env, output, errors)
                if run >= request["warmup"]:
                    measured[case["name"]]["ms"].append(round(wall, 3))
                    measured[case["name"]]["kb"].append(memory)
    except CommandFailed as error:
        sys.exit(f"benchmarks: {error}")
    finally:
        if screen is not None:
            screen.close()
    json.dump(measured, sys.stdout)


if __name__ == "__main__":
    main()
