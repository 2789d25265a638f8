"""Build neuronctl in one file, for machines without pip.

    python tools/zipapp/build.py WHEEL OUT

``any.zip`` in it has the wheel and what it needs, for the oldest Python; one more for each
Python and machine has tree_sitter, which is compiled. uv takes them in the versions of
tools/outside/requirements.txt.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Dict

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
COMPILED = ("tree-sitter", "tree-sitter-bash")


def installed(python: str, machine: str, *what: str) -> Dict[str, bytes]:
    """Return what uv installs on such a machine: name -> content."""
    with tempfile.TemporaryDirectory() as place:
        argv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", place]
        argv += ["--only-binary", ":all:"]
        argv += ["--python", sys.executable, "--python-version", python]
        argv += ["--python-platform", f"{machine}-manylinux2014", "--link-mode", "copy"]
        locked = ROOT / "tools" / "outside" / "requirements.txt"
        argv += ["-c", str(locked), *what]
        subprocess.run(argv, check=True, cwd=place)
        left_out = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", ".lock", "uv_cache.json"}
        return {
            str(file.relative_to(place)): file.read_bytes()
            for file in Path(place).rglob("*")
            if file.is_file() and file.name not in left_out and file.parts[-2] != "bin"
        }


def zipped(files: Dict[str, bytes]) -> bytes:
    """Return a zip archive of these files, which is the same each time."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in sorted(files.items()):
            method = zipfile.ZIP_STORED if name.endswith(".zip") else zipfile.ZIP_DEFLATED
            info = zipfile.ZipInfo(name)  # of 1980
            info.external_attr = 0o644 << 16
            archive.writestr(info, content, method, 9)
    return whole.getvalue()


def main(wheel: str, out: str) -> None:
    """Collect the parts, and put the shell's lines before them."""
    parts: Dict[str, bytes] = {}
    for machine in MACHINES:
        for python in PYTHONS:
            ours = installed(python, machine, "--no-deps", *COMPILED)
            parts[f"cp{python.replace('.', '')}-{machine}.zip"] = zipped(ours)
    needed = installed(PYTHONS[0], MACHINES[0], "-r", str(ROOT / "pyproject.toml"))
    words = tuple(name.replace("-", "_") for name in COMPILED)
    common = {
        name: content
        for name, content in needed.items()
        if not name.startswith(words) and not name.endswith(".so")
    }
    with zipfile.ZipFile(wheel) as archive:
        common.update({name: archive.read(name) for name in archive.namelist()})
    common["start.py"] = (HERE / "start.py").read_bytes()
    parts["any.zip"] = zipped(common)
    version = Path(wheel).name.split("-")[1]
    digest = hashlib.sha256(b"".join(parts[name] for name in sorted(parts))).hexdigest()[:16]
    lines = {"@VERSION@": version, "@NAME@": f"{version}-{digest}"}
    texts = {name: (HERE / name).read_text(encoding="utf-8") for name in ("start.sh", "unpack.py")}
    for word, value in lines.items():
        texts = {name: text.replace(word, value) for name, text in texts.items()}
    parts["__main__.py"] = texts["unpack.py"].encode()
    Path(out).parent.mkdir(exist_ok=True)
    Path(out).write_bytes(texts["start.sh"].encode() + zipped(parts))
    Path(out).chmod(0o755)


if __name__ == "__main__":
    main(*sys.argv[1:])
