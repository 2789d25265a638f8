"""The stacks that a job's nodes print, read and put together."""

from __future__ import annotations

import subprocess

from neuronctl.monitoring.node_use import ProcessStack, alike, parse_stacks
from neuronctl.rendering.template_environment import script_templates
from neuronctl.slurm.srun import split_by_task

TOLD = """\
0: noise of a profile
0: @process\tgpu35\t11\t0\tS\tpt_main_thread\tpy-spy
0: Thread 11 (idle): "MainThread"
1: @process\tgpu36\t11\t1\tS\tpt_main_thread\tpy-spy
0:     all_reduce (train.py:8)
1: Thread 11 (active): "MainThread"
1:     all_reduce (train.py:8)
1: @process\tgpu36\t12\t2\tR\tpt_main_thread\tpy-spy
1: Thread 0x7F (active): "MainThread"
1:     load (train.py:4)
1: @process\tgpu36\t9\t\tS\tbash\t
1: 1 thread bash: state S, in do_wait
srun: error: a line of its own
"""


def test_each_nodes_lines_are_its_own_and_the_odd_rank_comes_first() -> None:
    found = [stack for lines in split_by_task(TOLD).values() for stack in parse_stacks(lines)]
    assert found[0] == ProcessStack(
        *("gpu35", 11, "0", "S", "pt_main_thread", "py-spy"),
        ('Thread 11 (idle): "MainThread"', "    all_reduce (train.py:8)"),
    )
    groups = [[(stack.node, stack.rank) for stack in same] for same in alike(found)]
    assert groups == [[("gpu36", "2")], [("gpu35", "0"), ("gpu36", "1")], [("gpu36", "")]]


def test_what_is_printed_is_what_is_read() -> None:
    module = script_templates().get_template("shipped/stacks.j2").module
    text = f"{module.show_stacks()}\nshow_stacks"  # type: ignore[attr-defined]
    program = 'sleep 300 & bash -ec "$1"; kill "$!"'
    given = {"SLURM_JOB_ID": f"77{id(text)}", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3"}
    given.update(PATH="/usr/bin:/bin", SLURMD_NODENAME="gpu35")
    argv = ["bash", "-c", program, "bash", text]
    done = subprocess.run(argv, env=given, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    by_name = {stack.name: stack for stack in parse_stacks(done.stdout.splitlines())}
    sleep = by_name["sleep"]
    assert (sleep.node, sleep.rank, sleep.state, sleep.tool) == ("gpu35", "3", "S", "")
    assert len(sleep.lines) == 1 and sleep.lines[0].startswith("1 thread sleep: state S")
