"""``check`` and ``submit`` say the same of the same script."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Tuple

import pytest
from measure import Script, scripts

from neuronctl.catalog.loader import load
from neuronctl.rules.base import RULES, Trait
from neuronctl.submission.existing_script import judge_text, read_existing


def said_of(script: Script, folder: Path) -> Tuple[List[str], List[str]]:
    """What check says of a script, and what submit says, but for what holds only here and now."""
    catalog = load(str(Path(__file__).parent / "catalog.yaml"))
    cluster = catalog.cluster(script.cluster)
    (folder / "job.sh").write_text(script.text, encoding="utf-8", errors="surrogateescape")
    check = judge_text("job.sh", script.text, catalog, cluster).findings
    submit = replace(read_existing(["job.sh"]), catalog=catalog, cluster=cluster).judge().findings
    by_check = [f"{one.code} job.sh:{one.place.line}: {one.message}" for one in check]
    by_submit = [f"{one.code} {one.message}" for one in submit]
    later = {code for code, rule in RULES.items() if Trait.ONLY_NOW in rule.traits}
    later.add("NC411")  # without a Slurm here, check takes a log's directory for another machine's
    return (
        sorted(line for line in by_check if line[:5] not in later),
        sorted(line for line in by_submit if line[:5] not in later),
    )


def test_check_and_submit_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    differ: Dict[str, Tuple[List[str], List[str]]] = {}
    for script in scripts():
        check, submit = said_of(script, tmp_path)
        if check != submit:
            differ[script.name] = check, submit
    assert differ == {}
