"""What is sent of neuronctl itself: one archive with all that it needs there, by content.

It is made once for each version, and for each Python and processor there. Where those are this
machine's own, what is installed here is packed; else pip fetches the libraries for them. One that
is a month old goes when a new one comes.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import secrets
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from neuronctl.common.errors import NotConnectedError, UsageError
from neuronctl.common.files import read_private, write_private
from neuronctl.common.frozen import dataclass
from neuronctl.common.paths import cache_dir, data_path
from neuronctl.common.words import amount
from neuronctl.remote.channel import Session
from neuronctl.remote.connection import Remote, Tell
from neuronctl.version import __version__

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

_DATA = ("templates", "programs", "partitions.yaml", "docs")

_INSTALL = """\
import hashlib, io, os, shutil, sys, tempfile, time, zipfile
mark, digest, size = sys.argv[1:]
os.write(1, b"\\036%s begin\\n" % mark.encode())
os.write(2, b"\\036%s begin\\n" % mark.encode())
data = sys.stdin.buffer.read(int(size))
if hashlib.sha256(data).hexdigest() != digest:
    sys.exit("neuronctl: what arrived is damaged: it is not used")
os.umask(0o077)
cache = os.environ.get("XDG_CACHE_HOME", "")
cache = cache if os.path.isabs(cache) else os.path.expanduser("~/.cache")
base = os.path.join(cache, "neuronctl", "remote")
os.makedirs(base, exist_ok=True)
if os.stat(base).st_uid != os.getuid() or os.stat(base).st_mode & 0o022:
    sys.exit("neuronctl: others can write to %s: nothing is put there" % base)
aside = tempfile.mkdtemp(dir=base)
try:
    zipfile.ZipFile(io.BytesIO(data)).extractall(aside)
    if not os.path.isdir(os.path.join(base, digest)):
        os.rename(aside, os.path.join(base, digest))
    for name in os.listdir(base):
        if os.stat(os.path.join(base, name)).st_mtime < time.time() - 30 * 86400:
            shutil.rmtree(os.path.join(base, name), ignore_errors=True)
finally:
    shutil.rmtree(aside, ignore_errors=True)
"""


_LONGEST = 100_000
"""Bytes of a request; Linux takes 128 KiB for one argument."""

_BEGIN = """\
import os, sys
mark, code, request = sys.argv[1:]
cache = os.environ.get("XDG_CACHE_HOME", "")
cache = cache if os.path.isabs(cache) else os.path.expanduser("~/.cache")
place = os.path.join(cache, "neuronctl", "remote", code)
try:
    there = os.stat(place).st_uid == os.getuid()
except OSError:
    there = False
if not there:
    os.write(1, b"\\036%s missing\\n" % mark.encode())
    sys.exit()
sys.path.insert(0, place)
from neuronctl.remote.host import answer
if answer(mark, request):
    from neuronctl.cli import program
    program()
"""
"""Python that runs there: a request to the neuronctl of the content hash ``code``."""


@dataclass(frozen=True)
class Payload:
    """An archive to send. digest: its SHA-256."""

    path: str
    digest: str


def payload(remote: Remote, tell: Tell) -> Payload:
    """Return what to send to a cluster; it is made if this version has none yet."""
    folder = os.path.join(cache_dir(), "payload")
    key = hashlib.sha256(f"{_state()} {remote.version} {remote.machine}".encode()).hexdigest()[:16]
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            match = re.fullmatch(key + r"-([0-9a-f]{64})\.zip", name)
            if match:
                return Payload(os.path.join(folder, name), match[1])
    tell(f"packing neuronctl {__version__} for {remote.name} (Python {remote.version})")
    data = _archive(remote)
    digest = hashlib.sha256(data).hexdigest()
    path = os.path.join(folder, f"{key}-{digest}.zip")
    write_private(path, data)
    for name in os.listdir(folder):
        if os.stat(os.path.join(folder, name)).st_mtime < time.time() - 30 * 86400:
            os.unlink(os.path.join(folder, name))
    return Payload(path, digest)


def install(remote: Remote, content: Payload, tell: Tell) -> None:
    """Send an archive, which is unpacked there only if its content is as it should be."""
    data = read_private(content.path)
    mark = secrets.token_hex(8)
    argv = [remote.python, "-IS", "-c", _INSTALL, mark, content.digest, str(len(data))]
    sent = Session(remote, argv, mark, tell)
    sent.write(data)
    if sent.finish():
        raise NotConnectedError(
            f"{remote.name} could not unpack neuronctl", "is your home there full?"
        )
    tell(f"sent neuronctl {__version__} to {remote.name}, once: {amount(len(data))}")


def run(
    remote: Remote,
    request: Mapping[str, Any],
    tell: Tell,
    *,
    tty: bool = False,
    takes_input: bool = False,
    errors: Optional[Callable[[bytes], object]] = None,
) -> Tuple[Session, str]:
    """Begin a request to neuronctl there, which is sent first if it is missing.

    Returns the session, and the content hash of what runs.
    """
    content = payload(remote, tell)
    packed = base64.b64encode(json.dumps(request).encode()).decode()
    if len(packed) > _LONGEST:
        raise UsageError("the command line is too long to be sent", "put it into a file")
    for _ in range(2):
        mark = secrets.token_hex(8)
        argv = [remote.python, "-IS", "-X", "utf8", "-c", _BEGIN, mark, content.digest, packed]
        begun = Session(remote, argv, mark, tell, tty=tty, takes_input=takes_input, errors=errors)
        if begun.state == "begin":
            return begun, content.digest
        begun.finish()
        if begun.state != "missing":
            break
        install(remote, content, tell)
    raise NotConnectedError(
        f"{remote.name} does not run what was sent ({begun.state})", "is your home there full?"
    )


def _state() -> str:
    """Return what differs once the code here has changed: a checkout's does without a version."""
    parts: List[str] = [__version__, sys.version, _PACKAGE]
    if not os.path.exists(os.path.join(os.path.dirname(_PACKAGE), "pyproject.toml")):
        return "\n".join([*parts, str(os.stat(__file__).st_mtime_ns)])
    for top in (_PACKAGE, *(data_path(name) for name in _DATA[:3])):
        for path, _ in _below(top):
            status = os.stat(path)
            parts.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(parts)


def _below(top: str) -> Iterator[Tuple[str, str]]:
    """Yield the files of a directory, each with its path below it."""
    if os.path.isfile(top):
        yield top, ""
    for folder, names, files in os.walk(top):
        names[:] = sorted(name for name in names if name not in ("__pycache__", "ko", "pictures"))
        for name in sorted(files):
            if not name.endswith(".pyc"):
                path = os.path.join(folder, name)
                yield path, os.path.relpath(path, top)


def _archive(remote: Remote) -> bytes:
    import io
    import tempfile
    import zipfile

    with tempfile.TemporaryDirectory(prefix="neuronctl-") as place:
        files = _libraries(remote, place)
        files.update((f"neuronctl/{name}", path) for path, name in _below(_PACKAGE))
        for data in _DATA:
            for path, name in _below(data_path(data)):
                files[os.path.join("neuronctl", "_data", data, name).rstrip("/")] = path
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for name, path in sorted(files.items()):
                with open(path, "rb") as file:
                    archive.writestr(zipfile.ZipInfo(name), file.read(), zipfile.ZIP_DEFLATED)
        return whole.getvalue()


def _libraries(remote: Remote, place: str) -> Dict[str, str]:
    """Return the files of the libraries for the Python there: name -> path here."""
    here = "{}.{}".format(*sys.version_info)
    if (remote.version, remote.machine) == (here, os.uname().machine) and sys.platform == "linux":
        return dict(_installed())
    import subprocess

    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--target", place]
    argv += ["--only-binary", ":all:", "--python-version", remote.version]
    argv += ["--platform", f"manylinux2014_{remote.machine}", "--implementation", "cp"]
    fetched = subprocess.run([*argv, *_needed("neuronctl")], stdout=2, stdin=subprocess.DEVNULL)
    if fetched.returncode:
        raise UsageError(
            f"pip cannot fetch neuronctl's libraries for Python {remote.version} on "
            f"{remote.machine}, which {remote.name} has",
            "check the network, or install neuronctl with pip under that Python",
        )
    return {name: path for path, name in _below(place) if not name.startswith("bin/")}


def _needed(name: str) -> List[str]:
    """Return what a library that is installed here needs; [] for one that is not."""
    from importlib import metadata

    try:
        needed = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    return [each.partition(";")[0].strip() for each in needed if "extra ==" not in each]


def _installed() -> Iterator[Tuple[str, str]]:
    """Yield (name, path) of the files of the libraries that are installed here."""
    from importlib import metadata

    top = os.path.dirname(_PACKAGE)
    if os.path.exists(os.path.join(top, "start.py")):  # a zipapp, with all of them beside it
        yield from ((name, path) for path, name in _below(top))
        return
    names, seen = ["neuronctl"], {"neuronctl"}
    while names:
        needed = {re.split(r"[^\w.-]", each)[0] for each in _needed(names.pop())} - seen
        names += needed
        seen |= needed
    for name in sorted(seen - {"neuronctl"}):
        with contextlib.suppress(metadata.PackageNotFoundError):
            library = metadata.distribution(name)
            for file in library.files or ():
                path = str(library.locate_file(file))
                if not str(file).startswith("..") and os.path.isfile(path):
                    yield str(file), path
