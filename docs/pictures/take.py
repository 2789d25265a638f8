"""Take the pictures in the documentation: real commands on a real Slurm, exported as SVG by rich.

    python docs/pictures/take.py              takes all of them, in about four minutes

It brings up its own sandbox, submits jobs, runs the commands on a terminal of 80 columns and draws
what they print. The pictures load no fonts.
"""

from __future__ import annotations

import fcntl
import html
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

COLUMNS = 80
CELL = 12.2  # width of a character cell in rich's SVG
NAME = "pictures"
NODES = {"amd_a100nv_8": 2, "cas_v100nv_8": 2, "cas_v100nv_4": 3, "amd_h200nv_8": 1, "cpu": 2}
COMMENT = ["--field", "nlp", "--appl", "pytorch-ddp"]
LAST_SCREEN = "\x1b[?1049l"  # what follows is the last picture of a full-screen command

PROGRAMS = {
    "train.py": "import time\nfor n in range(600):\n"
    "    print(f'step {n}: loss {4 / (n + 1):.3f}', flush=True)\n    time.sleep(1)\n",
    "finetune.py": "import flash_attn\n",
    "evaluate.py": "print('accuracy 0.913')\n",
    "resnet.py": "import time\nend = time.time() + 150\n"
    "while time.time() < end:\n    sum(range(10**6))\n",
    "bin/nvidia-smi": """#!/usr/bin/env python3
# Stands in for NVIDIA's: four GPUs, of which one waits for data and one is never used.
import sys, time
words = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
units = {"utilization.gpu": " [%]", "memory.used": " [MiB]", "memory.total": " [MiB]"}
if "-L" in sys.argv:
    sys.exit(0)
fields = words["query-gpu"].split(",")
print(", ".join(field + units.get(field, "") for field in fields))
sample = 0
while True:
    sample += 1
    for gpu, use in enumerate([93, 91, 100 if sample % 3 == 0 else 4, 0]):
        values = {"index": gpu, "utilization.gpu": use, "memory.used": 61204 if use else 3}
        values["memory.total"] = 143771
        print(", ".join(str(values.get(field, "[N/A]")) for field in fields))
    sys.stdout.flush()
    if "loop" not in words:
        break
    time.sleep(float(words["loop"]))
""",
}


def main() -> None:
    """Bring the sandbox up, take the pictures inside it, fetch them."""
    here = Path(__file__).resolve().parent
    env = {**os.environ, "NEURONCTL_SANDBOX": NAME}

    def sandbox(*words: str) -> bytes:
        argv = [sys.executable, "-m", "neuronctl", "sandbox", *words]
        return subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE).stdout

    sandbox("up", *(word for name, n in NODES.items() for word in ("--nodes", f"{name}={n}")))
    try:
        python = [sys.executable, Path(__file__).name, "--inside"]
        names = sandbox("exec", "--copy", __file__, "--", *python).decode().split()
        for name in names:
            (here / name).write_bytes(sandbox("exec", "--", "cat", name))
            print(here / name)
    finally:
        sandbox("down")


# ------------------------------------------------------------------------------- inside


def inside() -> List[str]:
    """Submit the jobs, wait for the states that the pictures show, draw; return the file names."""
    for name, text in PROGRAMS.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    Path("bin/nvidia-smi").chmod(0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{Path('bin').resolve()}:{path}"
    sampled = submit("resnet", "amd_h200nv_8", 4, "10", "resnet.py", "--monitor")
    os.environ["PATH"] = path
    late = submit("ablation", "cas_v100nv_8", 1, "1", "train.py")
    broken = submit("finetune", "cas_v100nv_8", 1, "10", "finetune.py")
    submit("evaluate", "cas_v100nv_8", 1, "10", "evaluate.py")
    submit("pretrain", "amd_a100nv_8", 8, "4", "train.py")
    submit("한국어-모델", "cas_v100nv_4", 2, "3", "train.py")
    submit("sweep", "cas_v100nv_4", 2, "3", "train.py", "--array", "0-5%2")
    waits = submit(
        "pretrain-xl", "amd_a100nv_8", 8, "60", "train.py", "-N", "2", "--launcher", "torchrun"
    )
    after = submit(
        "한국어-평가", "amd_a100nv_8", 1, "10", "evaluate.py", "--dependency", f"afterok:{waits}"
    )
    wait_until(lambda: states().get(late) == "TIMEOUT")
    wait_until(lambda: "Resources" in [job["reason"] for job in jobs()])
    wait_until(lambda: states().get(sampled) == "COMPLETED")
    pictures: Dict[str, Tuple[str, ...]] = {
        "status.svg": ("neuronctl status",),
        "why.svg": (f"neuronctl why {broken}", f"neuronctl why {late}"),
        "report.svg": (f"neuronctl report {sampled}",),
        "why-waits.svg": (f"neuronctl why {waits}", f"neuronctl why {after}"),
        "partitions-live.svg": ("neuronctl partitions --live",),
    }
    for name, commands in pictures.items():
        take(Path(name), commands)
    return list(pictures)


def submit(name: str, partition: str, gpus: int, limit: str, program: str, *more: str) -> str:
    """Submit a job; return its id."""
    launcher = [] if "--launcher" in more else ["--launcher", "python"]
    words = ["-J", name, "-p", partition, "--gpus-per-node", str(gpus), "-t", limit]
    argv = ["neuronctl", "submit", "--json", *words, *launcher, *COMMENT, *more, program]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return str(json.loads(done.stdout)["job_id"])


def jobs() -> List[Dict[str, Any]]:
    """Return the user's jobs as ``status --json`` prints them."""
    argv = ["neuronctl", "status", "--json"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    found: List[Dict[str, Any]] = json.loads(done.stdout)["jobs"]
    return found


def states() -> Dict[str, str]:
    """Return the states of the user's jobs, by job id."""
    return {job["job_id"]: job["state"] for job in jobs()}


def wait_until(check: Callable[[], Any]) -> None:
    """Check once a second; give up after four minutes."""
    give_up = time.monotonic() + 240
    while not check():
        if time.monotonic() > give_up:
            sys.exit(f"jobs did not get to the states for the pictures: {states()}")
        time.sleep(1)


def on_terminal(command: str, interrupt_after: Optional[float] = None) -> str:
    """Return what a command prints on a terminal before Ctrl-C interrupts it."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS))
        os.execvp("sh", ["sh", "-c", command])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    said = b""
    due = None if interrupt_after is None else time.monotonic() + interrupt_after
    while True:
        if due is not None and time.monotonic() > due:
            os.write(terminal, b"\x03")
            due = None
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        said += data
    os.waitpid(child, 0)
    text = said.decode("utf-8", "replace").replace("\r\n", "\n")
    return text.rpartition(LAST_SCREEN)[2]


def take(path: Path, commands: Tuple[str, ...]) -> None:
    """Run the commands one after another and draw them into one picture."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        for command in commands:
            console.print(Text(f"$ {command}", "bold green"))
            seconds = 4.0 if "--watch" in command else None
            console.print(Text.from_ansi(on_terminal(command, seconds)))
        form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
        svg = console.export_svg(title=path.stem, code_format=form, unique_id=path.stem)
    path.write_text(word_by_word(svg), encoding="utf-8")


def word_by_word(svg: str) -> str:
    """Place each word by itself: rich's SVG gives a Hangul syllable one cell instead of two."""

    def words(match: re.Match[str]) -> str:
        text = html.unescape(match["text"])
        made = []
        for word in re.finditer(r"[^\xa0]+", text):
            x = float(match["x"]) + CELL * cell_len(text[: word.start()])
            length = CELL * cell_len(word[0])
            made.append(
                f'<text class="{match["style"]}" x="{x:g}" y="{match["y"]}" textLength="{length:g}"'
                f"{match['rest']}>{html.escape(word[0], quote=False)}</text>"
            )
        return "".join(made)

    return re.sub(
        r'<text class="(?P<style>[^"]*)" x="(?P<x>[^"]*)" y="(?P<y>[^"]*)" textLength="[^"]*"'
        r"(?P<rest>[^>]*)>(?P<text>[^<]*)</text>",
        words,
        svg,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--inside"]:
        print(" ".join(inside()))
    else:
        main()
