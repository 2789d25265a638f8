"""The archive of neuronctl and its libraries that is sent to a cluster, named by its content.

It is made once for each version, and for each Python and processor there. If these are this
machine's own, the installed libraries are packed; otherwise pip fetches them. An archive that is a
month old is removed when a new one comes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import time
from typing import Dict, List, Tuple

from neuronctl.common.errors import UsageError
from neuronctl.common.files import file_state, write_private
from neuronctl.common.paths import cache_dir, data_path
from neuronctl.remote.connection import Remote, Tell
from neuronctl.remote.host import files_below
from neuronctl.version import __version__

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

_DATA = ("templates", "programs", "partitions.yaml", "docs")

_NOT_SENT = ("__pycache__", "ko", "pictures")


def payload(remote: Remote, tell: Tell) -> Tuple[str, str]:
    """Return the archive for a cluster and its SHA-256; create it once per version."""
    folder = os.path.join(cache_dir(), "payload")
    files = {f"neuronctl/{name}": path for path, name in files_below(_PACKAGE, _NOT_SENT)}
    for data in _DATA:
        for path, name in files_below(data_path(data), _NOT_SENT):
            files[os.path.join("neuronctl/_data", data, name).rstrip("/")] = path
    # A checkout's files change without a new version.
    states = [(path, *file_state(path)) for path in files.values()]
    state = repr((__version__, sys.version, remote.version, remote.machine, states))
    key = hashlib.sha256(state.encode()).hexdigest()[:16]
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            match = re.fullmatch(key + r"-([0-9a-f]{64})\.zip", name)
            if match:
                return os.path.join(folder, name), match[1]
    tell(f"packing neuronctl {__version__} for {remote.name} (Python {remote.version})")
    content = _archive(remote, files)
    digest = hashlib.sha256(content).hexdigest()
    path = os.path.join(folder, f"{key}-{digest}.zip")
    write_private(path, content)
    for old, _ in files_below(folder):
        if os.stat(old).st_mtime < time.time() - 30 * 86400:
            os.unlink(old)
    return path, digest


def _archive(remote: Remote, files: Dict[str, str]) -> bytes:
    """Return a zip file of these files (name -> path) and the libraries they need."""
    import io
    import tempfile
    import zipfile

    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="neuronctl-") as place:
        files = {**_libraries(remote, place), **files}
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for name, path in sorted(files.items()):
                with open(path, "rb") as file:
                    archive.writestr(zipfile.ZipInfo(name), file.read(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _libraries(remote: Remote, place: str) -> Dict[str, str]:
    """Return the files of the libraries for the Python there: name -> path here."""
    own_platform = ("{}.{}".format(*sys.version_info), os.uname().machine)
    if (remote.version, remote.machine) == own_platform and sys.platform == "linux":
        return _installed()
    import subprocess

    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--target", place]
    argv += ["--only-binary", ":all:", "--python-version", remote.version]
    argv += ["--platform", f"manylinux2014_{remote.machine}", "--implementation", "cp"]
    # Standard output belongs to the command; what pip prints goes to standard error.
    fetched = subprocess.run([*argv, *_needed("neuronctl")], stdout=2, stdin=subprocess.DEVNULL)
    if fetched.returncode:
        raise UsageError(
            f"pip cannot fetch neuronctl's libraries for Python {remote.version} on "
            f"{remote.machine}, which {remote.name} has",
            "check the network, or install neuronctl with pip under that Python",
        )
    return {name: path for path, name in files_below(place, ("bin",))}


def _installed() -> Dict[str, str]:
    """Return the files of the libraries installed here: name -> path."""
    from importlib import metadata

    top = os.path.dirname(_PACKAGE)
    if os.path.exists(os.path.join(top, "start.py")):  # a zipapp with all libraries
        return {name: path for path, name in files_below(top, _NOT_SENT)}
    names = ["neuronctl"]
    files: Dict[str, str] = {}
    for name in names:  # the list grows: libraries need others
        # The name comes before the version or the extras, as in numpy>=1.20 and jax[cuda].
        libraries = [re.split(r"[^\w.-]", line)[0] for line in _needed(name)]
        names += [library for library in libraries if library not in names]
    for name in names[1:]:  # without neuronctl, whose files are packed already
        with contextlib.suppress(metadata.PackageNotFoundError):
            for file in metadata.files(name) or ():
                path = str(file.locate())
                if not str(file).startswith("..") and os.path.isfile(path):
                    files[str(file)] = path
    return files


def _needed(name: str) -> List[str]:
    """Return the requirements of an installed library; [] if it is not installed."""
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        lines = metadata.requires(name) or []
        return [line.partition(";")[0].strip() for line in lines if "extra ==" not in line]
    return []
