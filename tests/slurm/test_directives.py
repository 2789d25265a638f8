"""What neuronctl writes into ``#SBATCH`` lines, read back from the real sbatch and squeue."""

from __future__ import annotations

import json
import random
from typing import Any, Dict, List

from harness import Sandbox

from neuronctl.planning import Directive
from neuronctl.rendering.script_lines import option_text

HOSTILE = [
    *["two words", " blanks ", 'say "no"', "it's", "back\\slash", "\\", 'a\\"b', "'\"'\"'", "#1"],
    *["a #b", "a#b", "$HOME", "$(id)", "`id`", "a;b", "%x_%j", "a|b", "a,b=c", ":", "-p", "실험 1"],
    *["😀", "naïve\u00a0space", "~", "*", "[1-2]", "x" * 900, "\u3000", "\u00ad", "\u200b"],
]
ALPHABET = " \\\"'#;$`=,%*|aé가"


def values() -> List[str]:
    dice = random.Random(1)
    made = ["".join(dice.choices(ALPHABET, k=dice.randint(1, 12))) for _ in range(60)]
    return HOSTILE + [value for value in made if value.strip()]


# Runs inside: {name: script} on standard input, {name: what was seen} on standard output.
READ_BACK = """
import json, subprocess, sys
seen = {}
for name, script in json.load(open(sys.argv[1])).items():
    result = subprocess.run(
        ["sbatch", "-v", "--test-only"], input=script, capture_output=True, text=True
    )
    rows = [line.split(": ", 2) for line in result.stderr.splitlines() if line.count(": ") > 1]
    seen[name] = {row[1].strip(): row[2] for row in rows}
print(json.dumps(seen))
"""


def read_back(sandbox: Sandbox, scripts: Dict[str, str]) -> Any:
    sandbox.write("scripts.json", json.dumps(scripts))
    sandbox.write("read_back.py", READ_BACK)
    return json.loads(sandbox.exec(["python3", "read_back.py", "scripts.json"]).stdout)


def test_sbatch_reads_what_was_meant(sandbox: Sandbox) -> None:
    """As comments: sbatch -v prints every option as it understood it."""
    meant = dict(enumerate(values()))
    scripts = {}
    for number, value in meant.items():
        line = f'#SBATCH {option_text(Directive("comment", value))}  # it\'s a "remark"'
        scripts[str(number)] = f"#!/bin/bash\n{line}\n#SBATCH --job-name=next\ntrue\n"
    seen = read_back(sandbox, scripts)
    assert {number: seen[str(number)]["comment"] for number in meant} == meant
    assert {seen[str(number)]["job-name"] for number in meant} == {"next"}
