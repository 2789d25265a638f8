"""Build neuronctl in one file, for machines without pip.

    python tools/zipapp/build.py WHEEL OUT

Its ``any.zip`` has the wheel and the wheel's dependencies, for the oldest Python. tree_sitter is
compiled: one more zip has it for each Python and machine. uv installs all in the versions of
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


def install(python: str, machine: str, *packages: str) -> Dict[str, bytes]:
    """Return the files that uv installs for a Python on a machine, each with its content."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", folder]
        argv += ["--only-binary", ":all:"]
        argv += ["--python", sys.executable, "--python-version", python]
        argv += ["--python-platform", f"{machine}-manylinux2014", "--link-mode", "copy"]
        locked = ROOT / "tools" / "outside" / "requirements.txt"
        argv += ["-c", str(locked), *packages]
        subprocess.run(argv, check=True, cwd=folder)
        left_out = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", ".lock", "uv_cache.json"}
        return {
            str(file.relative_to(folder)): file.read_bytes()
            for file in Path(folder).rglob("*")
            if file.is_file() and file.name not in left_out and file.parts[-2] != "bin"
        }


def make_zip(files: Dict[str, bytes]) -> bytes:
    """Return a zip archive of these files, byte for byte the same each time."""
    archive_bytes = io.BytesIO()
    with zipfile.ZipFile(archive_bytes, "w") as archive:
        for name, content in sorted(files.items()):
            method = zipfile.ZIP_STORED if name.endswith(".zip") else zipfile.ZIP_DEFLATED
            info = zipfile.ZipInfo(name)  # with a fixed date, in 1980
            info.external_attr = 0o644 << 16
            archive.writestr(info, content, method, 9)
    return archive_bytes.getvalue()


def main(wheel: str, out: str) -> None:
    """Write the file: the shell's lines of start.sh, and behind them a zip of all parts."""
    parts: Dict[str, bytes] = {}
    for machine in MACHINES:
        for python in PYTHONS:
            compiled = install(python, machine, "--no-deps", *COMPILED)
            parts[f"cp{python.replace('.', '')}-{machine}.zip"] = make_zip(compiled)
    parts["any.zip"] = make_zip(collect_common_files(wheel))
    version = Path(wheel).name.split("-")[1]
    digest = hashlib.sha256(b"".join(parts[name] for name in sorted(parts))).hexdigest()[:16]
    name = f"{version}-{digest}"
    parts["__main__.py"] = read_program("unpack.py", version, name)
    Path(out).parent.mkdir(exist_ok=True)
    Path(out).write_bytes(read_program("start.sh", version, name) + make_zip(parts))
    Path(out).chmod(0o755)


def collect_common_files(wheel: str) -> Dict[str, bytes]:
    """Return the files that every Python and machine needs: those that are not compiled."""
    dependencies = install(PYTHONS[0], MACHINES[0], "-r", str(ROOT / "pyproject.toml"))
    compiled = tuple(name.replace("-", "_") for name in COMPILED)
    files = {
        name: content
        for name, content in dependencies.items()
        if not name.startswith(compiled) and not name.endswith(".so")
    }
    with zipfile.ZipFile(wheel) as archive:
        files.update({name: archive.read(name) for name in archive.namelist()})
    return {**files, "start.py": (HERE / "start.py").read_bytes()}


def read_program(file: str, version: str, name: str) -> bytes:
    """Return a program of this directory with neuronctl's version and the name of its copy."""
    text = (HERE / file).read_text(encoding="utf-8")
    return text.replace("@VERSION@", version).replace("@NAME@", name).encode()


if __name__ == "__main__":
    main(*sys.argv[1:])
