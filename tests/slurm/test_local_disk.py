"""The how-to page's script that copies a data set to each node's local disk, on two nodes."""

from __future__ import annotations

import re
from typing import List

import yaml
from doc_pages import ROOT
from harness import Sandbox

PAGE = (ROOT / "docs/how-to/common-tasks.md").read_text("utf-8")
SECTION = PAGE.partition("## Copy a data set to each node's local disk")[2].partition("\n## ")[0]
SHOW = """srun --ntasks=2 --ntasks-per-node=1 bash -c \
'echo "$(hostname -s) $(cat /tmp/staged/data/word) $(wc -l </tmp/staged/data/unpacked)"'"""
TAR = """#!/bin/bash
echo once >>/tmp/staged/data/unpacked; sleep 1; exec /bin/tar "$@"
"""


def logs(sandbox: Sandbox, setup: str, *names: str) -> List[str]:
    """The logs of jobs on both nodes, once all have ended."""
    job = {
        "partition": "amd_a100nv_8", "nodes": 2, "gpus-per-node": 1, "time": 5, "field": "misc",
        "appl": "misc", "env": f"PATH={sandbox.scratch}/bin:/usr/bin:/bin", "setup": setup,
        "run": SHOW,
    }  # fmt: skip
    sandbox.write("staged.yaml", yaml.safe_dump(job))
    for name in names:
        command = ["neuronctl", "submit", "-f", "staged.yaml", "-J", name, "-o", f"{name}.log"]
        sandbox.exec(command)
    sandbox.wait_for_jobs()
    return [sandbox.exec(["cat", f"{name}.log"]).stdout for name in names]


def test_two_jobs_unpack_once_on_each_node(sandbox: Sandbox, no_jobs: None) -> None:
    """Two jobs run on the same nodes at a time; a third one has another archive."""
    stage, page_job = re.findall(r"```(?:sh|yaml)\n(.*?)```", SECTION, re.DOTALL)
    setup = yaml.safe_load(page_job)["setup"].replace("/etmp/you", "/tmp/staged")
    sandbox.write("stage.sh", stage)
    sandbox.write("bin/tar", TAR)
    pack = "chmod +x bin/tar; mkdir -p set; echo $0 >set/word; /bin/tar -cf data.tar -C set word"
    sandbox.exec(["bash", "-c", pack, "whole"])
    both = logs(sandbox, setup, "one", "two")
    sandbox.exec(["bash", "-c", pack, "another"])
    later = logs(sandbox, setup, "later")
    for log, expected in (*((log, "whole 1") for log in both), (later[0], "another 2")):
        lines = [line for line in log.splitlines() if not line.startswith("srun: ")]
        hosts, words = zip(*(line.split(" ", 1) for line in lines))
        assert words == (expected, expected) and hosts[0] != hosts[1], log
