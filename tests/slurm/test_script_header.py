"""What neuronctl reads in a script's ``#SBATCH`` lines against what sbatch makes of the same file.

Also what ``neuronctl import`` and ``generate`` make of it, where import has no remark on it.

Each script is submitted, held; what was read of it is submitted too, as a command line with a
script that has no directives. Both jobs must be the same to the last field, or both be refused.
``--agreement-seed`` and ``--agreement-states`` take others, and ten for each state.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Callable, Dict, Iterator, List, Optional

import pytest
from harness import Sandbox, sandbox_up
from headers import Script, random_script
from states import NODES

from neuronctl.scripts import header_reader
from neuronctl.scripts.header import COMMAND_LINE, SCRIPT, Header, excluding
from neuronctl.scripts.header_reader import read_header

SEED = 20261122
STATES = 6
SERVER = "Batch job submission failed"
OF_THE_CLUSTER = (SERVER, "gres", "GRES", "TRES")
"""In what sbatch tells where slurmctld, or the cluster's own resources, have something against a
job, and not sbatch's reading of the script."""

# Option -> the first release of Slurm that has it, and the first without --power.
SINCE = {
    **dict.fromkeys(("autocomplete", "container-id", "extra", "tres-per-task"), (23, 2)),
    "tres-bind": (23, 11),
    **dict.fromkeys(("segment", "stepmgr", "resv-ports"), (24, 5)),
    "oom-kill-step": (24, 11),
    "external": (25, 5),
    **dict.fromkeys(("consolidate-segments", "resources", "spread-segments"), (25, 11)),
    **dict.fromkeys(("runtime", "mem-update"), (26, 5)),
}
WITHOUT_POWER = (24, 5)

# What differs between two jobs that ask for the same.
OWN = ("JobId", "SubmitTime", "EligibleTime", "AccrueTime", "StartTime", "EndTime", "Deadline",
       "LastSchedEval", "Command", "ArrayJobId", "HetJobId", "Priority", "HetJobIdSet",
       "SubmitLine")  # fmt: skip


@pytest.fixture
def lenient(slurm_there: None) -> Iterator[Sandbox]:
    """A cluster without rules of its own."""
    catalog = str(Path(__file__).with_name("wide.yaml"))
    options = [word for name, count in NODES.items() for word in ("--nodes", f"{name}={count}")]
    with sandbox_up("headers", "--catalog", catalog, *options) as made:
        yield made


def fields(shown: str) -> Dict[str, str]:
    """What scontrol shows of a job, without what differs between equal ones."""
    job_id = re.search(r"JobId=(\d+)", shown)
    assert job_id is not None, shown
    shown = shown.replace("HetJobOffset=0\n", "")
    found = dict(re.findall(r"(?:^|\s)([A-Za-z:/]+)=((?:(?!\s[A-Za-z:/]+=).)*)", shown))
    return {
        # 26.05 writes / once between a directory and a name, where the directory is / itself.
        name: re.sub(rf"(?<!\d){job_id[1]}(?!\d)", "ID", value).replace("//", "/")
        if name in ("StdOut", "StdErr")
        else value
        for name, value in found.items()
        if name not in OWN
    }


def as_arguments(header: Header) -> Script:
    """What was read, as a command line with a script that has no directives."""
    outside = [option for option in header.given if option.source.startswith(("SBATCH_", "SLURM_"))]
    over = {name for option in outside for name in (option.name, *excluding(option.name))}
    return {
        "text": "#!/bin/bash\ntrue\n",
        "environment": {option.source: option.value or "" for option in outside},
        # A command line goes over the environment, and a script does not.
        "arguments": [
            option.text
            for option in header.given
            if option.source == COMMAND_LINE
            or (option.source == SCRIPT and option.name not in over)
        ],
    }


def by_cluster(message: str) -> bool:
    """Whether this is not about how the script is read."""
    return any(word in message.splitlines()[-1] for word in OF_THE_CLUSTER)


def difference(header: Header, told: List[str], again: List[str]) -> Optional[str]:
    """In what neuronctl's reading and Slurm's differ; None where they do not."""
    message, shown = told
    if header.refusals:
        ours = "; ".join(refusal.message for refusal in header.refusals)
        if not message or SERVER in message:
            return f"refused by neuronctl ({ours}), and by sbatch: {message or 'taken'}"
        return None
    if message and not by_cluster(message):
        return f"refused by sbatch alone: {message}"
    if header.components > 1:
        return None  # the command line has the first component alone
    if message:
        theirs = again[0].splitlines()[-1:]
        return None if theirs == message.splitlines()[-1:] else f"{message} / {again[0]}"
    if again[0]:
        return f"as a command line refused: {again[0]}"
    one, other = fields(shown), fields(again[1])
    apart = {name for name in {*one, *other} if one.get(name) != other.get(name)}
    return (
        "; ".join(f"{name}: {one.get(name)} / {other.get(name)}" for name in sorted(apart)) or None
    )


@pytest.mark.long
def test_scripts_are_read_as_sbatch_reads_them(
    lenient: Sandbox,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    seed = pytestconfig.getoption("--agreement-seed") or SEED
    count = 10 * (pytestconfig.getoption("--agreement-states") or STATES)
    print(f"--agreement-seed {seed} --agreement-states {count // 10}")
    rng = Random(seed)
    release = lenient.version[:2]
    here = [
        option
        for option in header_reader.SBATCH
        if SINCE.get(option.long, release) <= release
        and (option.long != "power" or release < WITHOUT_POWER)
    ]
    # What an abbreviation means depends on the options of the release.
    monkeypatch.setattr(header_reader, "SBATCH", tuple(here))
    if release < (23, 2):  # which lets --exclusive and --oversubscribe stand together
        monkeypatch.setattr(header_reader, "_EXCLUDING", header_reader._EXCLUDING[:1])
    scripts = [random_script(rng) for _ in range(count)]
    if release >= (24, 5):  # an escaped space is a character since then
        scripts = [script for script in scripts if "\\ " not in script["text"]]
        count = len(scripts)
    headers = [
        read_header(
            script["text"], environment=script["environment"], command_line=script["arguments"]
        )
        for script in scripts
    ]
    program = Path(__file__).with_name("headers.py").read_text(encoding="utf-8")
    lenient.write("headers.py", program)

    def submit(name: str, what: List[Script]) -> List[List[str]]:
        text = json.dumps(what)
        argv = ["python3", "headers.py", f"{lenient.scratch}/{name}"]
        return json.loads(lenient.exec(argv, input=text, timeout=1200).stdout)

    told = submit("as-scripts", scripts)
    again = submit("as-words", [as_arguments(header) for header in headers])
    wrong = [
        f"{script['text']!r} {script['environment']} {script['arguments']}\n  {found}"
        for script, header, one, other in zip(scripts, headers, told, again)
        for found in [difference(header, one, other)]
        if found is not None
    ]
    taken = sum(1 for message, _ in told if not message)
    refused = sum(1 for header in headers if header.refusals)
    record_property(
        "agreement",
        f"seed {seed}: {count} scripts, {taken} taken, {refused} refused by sbatch, "
        f"{count - taken - refused} by slurmctld, {len(wrong)} differences",
    )
    assert not wrong, "\n".join(wrong)
    assert taken > count / 4
    assert refused > count / 10
