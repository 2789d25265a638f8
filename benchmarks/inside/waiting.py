"""Counts the requests that many ``neuronctl wait`` at once send to slurmctld.

Reads {"jobs": [ID, …], "counts": [N, …], "seconds": S} from standard input: for each N, so many
wait S seconds, each for a job of its own, and sdiag counts the user's requests. Prints {N: COUNT}.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Dict


def requests() -> int:
    """All requests of this user so far."""
    text = subprocess.run(["sdiag"], check=True, stdout=subprocess.PIPE, text=True).stdout
    count = re.search(rf"\(\s*{os.getuid()}\) count:(\d+)", text)
    return int(count[1]) if count else 0


def main() -> None:
    """Print the requests to slurmctld for each number of waiting commands."""
    request = json.load(sys.stdin)
    requests()  # of the first one nothing is counted yet
    answer: Dict[int, int] = {}
    for count in request["counts"]:
        before = requests()
        waits = [
            subprocess.Popen(
                ["neuronctl", "wait", str(job), "--timeout", f"{request['seconds']}s"],
                stderr=subprocess.DEVNULL,
            )
            for job in request["jobs"][:count]
        ]
        codes = {wait.wait() for wait in waits}
        if codes != {75}:
            sys.exit(f"benchmarks: neuronctl wait ended with {codes}")
        answer[count] = requests() - before - 1  # sdiag is one, too
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
