"""Counts the requests that many ``neuronctl wait`` at once send to slurmctld.

Reads {"jobs": [ID, …], "counts": [N, …], "seconds": S} from standard input. For each N, that many
wait for S seconds, each for another job, and sdiag counts the user's requests. Prints {N: COUNT}.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Dict


def count_requests() -> int:
    """Return how many requests of this user slurmctld has counted so far."""
    text = subprocess.run(["sdiag"], check=True, stdout=subprocess.PIPE, text=True).stdout
    count = re.search(rf"\(\s*{os.getuid()}\) count:(\d+)", text)
    return int(count[1]) if count else 0


def main() -> None:
    """Print the requests to slurmctld for each number of waiting commands."""
    request = json.load(sys.stdin)
    count_requests()  # slurmctld counts a user's requests from the second one on
    answer: Dict[int, int] = {}
    for count in request["counts"]:
        before = count_requests()
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
        answer[count] = count_requests() - before - 1  # without sdiag's own
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
