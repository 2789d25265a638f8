"""--profile: what its words mean, and what each launcher starts in place of the program."""

from __future__ import annotations

import pytest
from plan_builders import plan_of

from neuronctl.common.errors import TemplateError
from neuronctl.launch import launchers
from neuronctl.planning.software import PROFILED
from neuronctl.rendering.render import render_job
from neuronctl.request.profile import PROFILERS, Profile, read_profile


@pytest.mark.parametrize(
    ("text", "profile", "words"),
    [
        ("nsys", Profile("nsys"), "nsys of all ranks"),
        ("py-spy:3", Profile("py-spy", ((3, 3),)), "py-spy of rank 3"),
        (
            "nsys:0,8-15@60-120",
            Profile("nsys", ((0, 0), (8, 15)), 60, 120),
            "nsys of ranks 0, 8-15, from 60 to 120 s after the start",
        ),
        (
            "rocprof@30",
            Profile("rocprof", (), 0, 30),
            "rocprof of all ranks, from 0 to 30 s after the start",
        ),
    ],
)
def test_grammar(text: str, profile: Profile, words: str) -> None:
    assert read_profile(text) == profile and profile.words == words


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "none of nsys"),
        ("ncu", "'ncu' is none of nsys, rocprof, py-spy"),
        ("nsys:", "TOOL"),
        ("nsys:a", "'a' is neither a rank nor a range"),
        ("nsys:5-3", "'5-3'"),
        ("nsys:0,,2", "''"),
        ("nsys@", "TOOL"),
        ("nsys@60-", "TOOL"),
        ("nsys@60-30", "ends after 30 s, and begins after 60 s"),
        ("nsys@0", "ends after 0 s"),
        ("nsys@1e3", "TOOL"),
        ("nsys:0@10:1", "TOOL"),
        ("nsys\n", "none of"),
        ("nsys:٣", "neither"),
        ("nsys:1;rm", "neither"),
    ],
)
def test_what_is_none(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        read_profile(text)


@pytest.mark.parametrize("name", launchers.names())
@pytest.mark.parametrize("script", ["train.py", "./solver"])
def test_each_launcher_starts_the_profiled_program(name: str, script: str) -> None:
    options = {} if name == "python" else {"nodes": 2, "ntasks_per_node": None}
    plan = plan_of(
        launcher=name,
        script=script,
        args=("--", "a b"),
        profile="nsys:0",
        gpus_per_node=1,
        **options,
    )
    begins = plan.program.index(PROFILED)
    executable = launchers.load(name).executable
    assert plan.program[: begins - 2] == executable
    assert plan.program[begins - 2 : begins] == ("bash", "-c")
    python = script == "train.py"
    wants = {False: (), True: ("python",)}[python]
    if python and not launchers.load(name).python:
        wants = ("python", "-u")
    assert plan.program[begins + 1 :] == ("program", *wants, script, "--", "a b")
    text = render_job(plan)
    assert "\n    profile_ranks " in text and "profile_rank() {" in text


@pytest.mark.parametrize("tool", PROFILERS)
def test_the_preflight_looks_for_the_tool_and_for_python(tool: str) -> None:
    text = render_job(plan_of(profile=tool, gpus_per_node=1))
    for program in (PROFILERS[tool].command, "python"):
        assert f"command -v {program} >/dev/null || defect" in text


def test_a_template_without_the_lines_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    template = tmp_path_factory.mktemp("own") / "own.sh.j2"
    template.write_text("#!/bin/bash\n{{ launch }}\n")
    with pytest.raises(TemplateError, match="lacks the lines of --profile"):
        render_job(plan_of(profile="nsys", gpus_per_node=1), template=str(template))
