"""``neuronctl check`` where there is a Slurm: it is asked, too."""

from __future__ import annotations

import json
import re
from typing import List, Tuple

import pytest
from harness import COMMENT, PATIENT, Sandbox

SCRIPT = f"""\
#!/bin/bash
#SBATCH --gres=gpu:1 {COMMENT}
#SBATCH -p koni
true
"""


def found(sandbox: Sandbox, *argv: str) -> List[Tuple[str, int]]:
    result = sandbox.exec([*PATIENT, "check", "--json", *argv], check=False)
    (file,) = json.loads(result.stdout)["files"]
    errors = [one for one in file["findings"] if one["severity"] == "error"]
    assert result.returncode == (4 if errors else 0)
    return [(one["code"], one["line"]) for one in file["findings"]]


def test_a_partition_that_slurm_does_not_have_is_underlined(sandbox: Sandbox) -> None:
    sandbox.write("job.sh", SCRIPT)
    assert found(sandbox, "job.sh") == [("NC101", 3)]
    refused = sandbox.exec(["sbatch", "-H", "job.sh"], check=False)
    assert refused.returncode != 0


def test_a_right_script_is_taken_by_both(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("job.sh", SCRIPT.replace("koni", "cas_v100nv_4"))
    assert found(sandbox, "job.sh") == []
    sandbox.exec(["sbatch", "-H", "job.sh"])


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("-J trained", "–J trained"),
        ("--job-name=trained", "—-job–name=trained"),
        ("-J trained -n 1", "-J trained\u00a0–n 1"),
        ("-J trained --time=1-00:00:00", "-J trained --time=1–00:00:00"),
        ("-J trained -x gpu[02-02]", "-J trained -x gpu[02–02]"),
        ('-J trained -c "1"', "-J trained -c “1”"),
        ("-J trained\n", "-J trained\r\n"),
        ("#!", "\ufeff#!"),
        (COMMENT, "--comment=pytorch-ddp"),
        (COMMENT, ""),
        ("trained-%u-%j", "trained-$USER-${SLURM_JOB_ID}"),
    ],
)
def test_sbatch_takes_what_check_has_mended(
    sandbox: Sandbox, no_jobs: None, right: str, wrong: str
) -> None:
    directives = ["#!/bin/bash", "#SBATCH -p cas_v100nv_8 --gres=gpu:1", "#SBATCH -J trained"]
    directives += [f"#SBATCH {COMMENT}", "#SBATCH -o trained-%u-%j", "true", ""]
    text = "\n".join(directives)
    if right not in text:
        text = text.replace("-J trained", right)
    sandbox.write("job.sh", text.replace(right, wrong, 1))
    before = sandbox.exec(["sbatch", "-H", "job.sh"], check=False)
    mend = ["check", "--fix", "--write", "--field", "misc", "--appl", "pytorch-ddp", "job.sh"]
    sandbox.exec([*PATIENT, *mend])
    assert found(sandbox, "job.sh") == []
    job = sandbox.exec(["sbatch", "--parsable", "-H", "job.sh"]).stdout.strip()
    shown = sandbox.exec(["scontrol", "show", "job", job]).stdout
    assert "JobName=trained\n" in shown and "/trained-neuron-" in shown
    # A variable is none to sbatch, which takes it for a part of the name.
    assert before.returncode == 0 if "$" in wrong else before.returncode != 0


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        *[("", ""), ("", "true\0"), ("", "\v\f"), ("\0", ""), ("\n", ""), (" ", "")],
        *[("\ufeff", ""), ("", "true\r\n"), ("", "a\rb\n"), ("", "\u00a0"), ("", "\x7f\x01")],
    ],
)
def test_a_file_that_sbatch_refuses_is_an_error(
    sandbox: Sandbox, no_jobs: None, before: str, behind: str
) -> None:
    directive = f"#SBATCH -p cas_v100nv_8 --gres=gpu:1 {COMMENT}\n"
    sandbox.write("job.sh", f"{before}#!/bin/bash\n{directive}true\n{behind}")
    taken = sandbox.exec(["sbatch", "-H", "job.sh"], check=False).returncode == 0
    codes = {code for code, _ in found(sandbox, "job.sh")}
    assert ("NC602" in codes) is not taken and taken is (codes == set())


def test_what_is_nothing_to_sbatch_is_an_error(sandbox: Sandbox) -> None:
    for text in ("", " \t\n", "\v\f\n", "\0"):
        sandbox.write("job.sh", text)
        assert sandbox.exec(["sbatch", "-H", "job.sh"], check=False).returncode != 0
        assert {code for code, _ in found(sandbox, "job.sh")} == {"NC602"}


def test_a_file_of_somebody_else_is_left(sandbox: Sandbox) -> None:
    text = f"#!/bin/bash\n#SBATCH –p cas_v100nv_4 --gres=gpu:1 {COMMENT}\ntrue\n"
    sandbox.write("theirs/job.sh", text)
    place = f"{sandbox.scratch}/theirs/job.sh"
    sandbox.root("sh", "-c", f"chown root {place} && chmod 666 {place}")
    result = sandbox.exec([*PATIENT, "check", "--fix", "--write", "theirs"], check=False)
    assert result.returncode == 4
    assert "theirs/job.sh: left as it is: it belongs to user 0" in result.stdout
    assert sandbox.exec(["cat", place]).stdout == text


def output(sandbox: Sandbox, directives: str, *lines: str) -> List[str]:
    """What a script prints, without Slurm's warnings."""
    text = ["#!/bin/bash", f"#SBATCH -p cas_v100nv_4 -o job.out {COMMENT} {directives}", *lines]
    sandbox.write("job.sh", "\n".join([*text, ""]))
    sandbox.exec(["env", "TOKEN=mine", "sbatch", "--wait", "job.sh"], check=False)
    return sandbox.exec(["cat", "job.out"]).stdout.splitlines()


@pytest.mark.long
def test_what_the_rules_say_of_slurm_is_so(sandbox: Sandbox, no_jobs: None) -> None:
    lines = output(
        sandbox,
        "-N 2 --ntasks-per-node=2 --gres=gpu:1",
        'srun bash -c "echo rank $SLURM_PROCID \\$SLURM_PROCID"',  # NC631
        "srun --ntasks-per-node=1 bash -c 'echo step $SLURM_NTASKS'",  # NC621
        "srun -N 3 true || echo refused",  # NC622
    )
    assert sorted(line for line in lines if line.startswith("rank")) == [
        f"rank 0 {rank}" for rank in range(4)
    ]
    assert [line for line in lines if line.startswith("step")] == ["step 4"] * 4
    assert "refused" in lines
    # NC611
    fewer = output(sandbox, "-N 3 -n 1 --gres=gpu:1", "echo nodes $SLURM_NNODES")
    assert fewer[-1] == "nodes 1"
    alone = "--gres=gpu:1 --export=A=1"
    text = ['echo "$HOME ${TOKEN:-none}"', "srun bash -c true || echo missing"]
    bare = output(sandbox, alone, *text)
    home = sandbox.exec(["sh", "-c", "echo $HOME"]).stdout.strip()
    assert f"{home} none" in bare and "missing" in bare, bare
    # NC660
    named = output(sandbox, "-N 2 --gres=gpu:1", 'echo "${SLURM_NTASKS-no} ${SLURM_GPUS-no}"')
    assert named == ["no no"]
    named = output(sandbox, "-N 2 --ntasks-per-node=2 --gpus=2", 'echo "$SLURM_NTASKS $SLURM_GPUS"')
    assert named == ["4 2"]
    # NC653
    both = output(
        sandbox,
        "-N 1 -n 2 --gres=gpu:1",
        "srun bash -c 'echo $SLURM_PROCID > own; sleep 2'",
        "srun bash -c 'echo $SLURM_PROCID' > one",
        'echo "$(grep -c . own) $(grep -c . one)"',
    )
    assert both[-1] == "1 2"  # before it, on a slow machine, srun says that nodes are busy
    # An allocation within the job waits for nodes, and no shell has a terminal. NC665.
    again = f"salloc -p cas_v100nv_4 -N 2 --exclusive --gres=gpu:1 -t 1 '{COMMENT}' true"
    waits = "until grep -q 'waiting for resources' asked; do sleep 0.2; done"
    asks = output(
        sandbox,
        "-N 2 --exclusive --gres=gpu:1",
        f"{again} 2>asked & {waits}; kill $!; wait $! || echo 'salloc waits'",
        'srun -N 1 -n 1 --pty bash && echo "shell $SECONDS"',
        'python3 && echo "python $SECONDS"',
    )
    assert "salloc waits" in asks, asks
    assert [line.split()[0] for line in asks if re.match(r"(shell|python) \d+$", line)] == [
        *("shell", "python")
    ]
