"""Unpack neuronctl once into the user's cache, and go on there: the __main__.py of the file."""

import os
import platform
import sys

NAME = "@NAME@"


def main():
    """Unpack what this Python needs unless that is done; note where it is for the next start."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    cache = os.path.join(base, "neuronctl", "zipapp")
    umask = os.umask(0o077)
    os.makedirs(cache, exist_ok=True)
    found = os.stat(cache)
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        sys.exit(
            f"neuronctl: {cache} is somebody else's, or others can write to it\n"
            "  hint: set XDG_CACHE_HOME to a directory that you own"
        )
    place = os.path.join(cache, f"{NAME}-{platform.machine()}")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    directory = f"{place}-{tag}"
    if not os.path.isdir(directory):
        unpack(directory, ("any.zip", f"{tag}-{platform.machine()}.zip"))
    python = os.path.realpath(sys.executable)
    note = f"{place}.{os.getpid()}"
    with open(note, "w") as file:
        file.write(f"{python}\n{directory}\n")
    os.replace(note, place)
    os.umask(umask)
    os.execv(python, [python, "-IS", os.path.join(directory, "start.py")] + sys.argv[1:])


def unpack(directory, parts):
    """Unpack the parts that are there; the directory appears when it is whole."""
    import io
    import shutil
    import tempfile
    import zipfile

    aside = tempfile.mkdtemp(dir=os.path.dirname(directory))
    try:
        with zipfile.ZipFile(os.path.dirname(os.path.abspath(__file__))) as whole:
            for part in set(parts) & set(whole.namelist()):
                with zipfile.ZipFile(io.BytesIO(whole.read(part))) as files:
                    files.extractall(aside)
        try:
            os.rename(aside, directory)
        except OSError:
            if not os.path.isdir(directory):  # else another one was faster
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


if sys.version_info < (3, 9):  # noqa: UP036
    sys.exit(f"neuronctl: needs Python 3.9 or newer; this is {platform.python_version()}")
try:
    main()
except OSError as error:
    sys.exit(
        f"neuronctl: cannot unpack itself: {error}\n"
        "  hint: free some space, or set XDG_CACHE_HOME to a directory that you own"
    )
