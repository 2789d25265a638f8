"""Makes a scontrol that tells of a large site: python many_nodes.py DIRECTORY NODES PARTITION.

It says what the real one says now, and of so many nodes more that are like the partition's first
one: each node has its own load, and they are used in as many ways as such a node can be.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

QUESTIONS = "config", "partition", "reservation", "licenses", "node"


def main() -> None:
    directory, count, partition = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    told = subprocess.run(
        ["/usr/bin/scontrol", "--all", "--detail", "--oneliner"],
        input="".join(f"show {one}\n" for one in QUESTIONS),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (line,) = re.findall(rf"^NodeName=(?=.* Partitions={partition} ).*\n", told, re.MULTILINE)[:1]
    gpus = int(re.findall(r" Gres=gpu:\w+:(\d+)", line)[0])
    directory.mkdir()
    with open(directory / "answer", "w", encoding="utf-8") as answer:
        answer.write(told)
        for number in range(count):
            used = number % (gpus + 1)
            figures = {
                "NodeName": f"many{number:05}", "CPULoad": number / 100, "CPUAlloc": 2 * used,
                "AllocMem": 1000 * used, "FreeMem": 200000 - number,
            }  # fmt: skip
            node = re.sub(r"(GresUsed=gpu:\w+):\d+\S*", rf"\1:{used}", line)
            for name, figure in figures.items():
                node = re.sub(rf"\b{name}=\S*", f"{name}={figure}", node)
            answer.write(node)
    scontrol = directory / "scontrol"
    scontrol.write_text(f"#!/bin/sh\nexec cat {directory}/answer\n", encoding="utf-8")
    scontrol.chmod(0o755)


if __name__ == "__main__":
    main()
