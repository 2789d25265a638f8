"""Files as they travel: lists of names, hashes, and bytes; and the cluster's side of it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.errors import UsageError
from neuronctl.common.files import head, open_own_directory, read_private, sha256_of, write_private
from neuronctl.common.paths import state_dir

_NO_RESULTS = ("venv", "env", "node_modules", "build", "dist")
"""Directories that a .gitignore names, and jobs do not write."""

Manifest = Dict[str, Tuple[str, int, int, str]]
"""Name -> (``file`` or ``link``, executable, bytes, SHA-256 or the link's target)."""


def is_safe(name: str) -> bool:
    """Return True if a relative path stays below where it starts."""
    parts = name.split("/")
    return not ("\0" in name or {"", "..", *([] if name == "." else ["."])} & set(parts))


def digest_of(files: Mapping[str, Any]) -> str:
    """Return one hash of a whole list."""
    text = json.dumps({name: list(entry) for name, entry in files.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write_file(
    path: str,
    size: int,
    read: Callable[[int], bytes],
    *,
    executable: bool,
    changed: Optional[int] = None,
) -> str:
    """Write a file that appears once it is whole; returns its SHA-256. Raises EOFError.

    changed: its time in nanoseconds, by default now.
    """
    folder, name = os.path.split(path)
    aside = os.path.join(folder, f".{name[:100]}.{os.getpid()}.neuronctl")
    mode, flags = 0o777 if executable else 0o666, os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        descriptor = os.open(aside, flags, mode)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(aside, flags, mode)
    digest = hashlib.sha256()
    try:
        with open(descriptor, "wb", buffering=0) as file:
            while size:
                part = read(min(size, 1 << 20))
                if not part:
                    raise EOFError("the connection ended")
                file.write(part)
                digest.update(part)
                size -= len(part)
        if changed is not None:
            os.utime(aside, ns=(changed, changed))
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
    return digest.hexdigest()


# ------------------------------------------------------------------------- the cluster's side


def say(data: Mapping[str, Any]) -> None:
    """Answer with a line of JSON."""
    rest = json.dumps(data).encode() + b"\n"
    while rest:
        rest = rest[os.write(1, rest) :]


def note_of(folder: str) -> str:
    """Return the file that says what was sent into a folder."""
    key = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return os.path.join(state_dir(), "projects", f"{key}.json")


def read_note(path: str) -> Dict[str, Any]:
    """Return what was sent into a folder, and from where; {} if nothing was."""
    with contextlib.suppress(OSError, ValueError):
        data = json.loads(read_private(path))
        return data if isinstance(data, dict) else {}
    return {}


def project_folder(request: Mapping[str, Any]) -> str:
    """Return the directory of a project: another one of the same name gets one of its own."""
    folder: str = os.path.join(request["directory"], request["project"])
    origin = read_note(note_of(folder)).get("origin", request["origin"])
    if origin == request["origin"]:
        return folder
    return f"{folder}-{hashlib.sha256(request['origin'].encode()).hexdigest()[:6]}"


def receive(request: Mapping[str, Any], data: BinaryIO) -> Dict[str, Any]:
    """Receive a project: the list, then the content of what is wanted. Returns the last answer."""
    files: Manifest = json.loads(data.readline())
    if not all(map(is_safe, files)):
        raise UsageError("a name of the project leads out of it")
    folder = project_folder(request)
    if not request["dry"]:
        os.makedirs(folder, exist_ok=True)
    with _alone(folder):
        note = read_note(note_of(folder))
        known, sending = note.get("files", {}), note.get("sending", {})
        wanted, changed = [], []
        have: Dict[str, Any] = {}
        for name, entry in files.items():
            mine = _content(folder, name, known)
            before = (known.get(name, [""])[0], sending.get(name))
            if mine == entry[3]:
                have[name] = entry
            elif mine is None or mine in before or matches(name, request["allow"]):
                wanted.append(name)
            else:
                changed.append(name)
        say({"wanted": wanted, "changed": changed, "folder": folder})
        if changed:
            return {}
        if request["dry"]:
            return _draft(request["directory"], files, request["scripts"], data)
        gone = [name for name in known if name not in files]
        if not wanted and not gone and known.keys() == files.keys():
            return {"have": digest_of(have), "folder": folder}
        note = {"origin": request["origin"], "folder": folder, "files": known}
        note["sending"] = {name: files[name][3] for name in wanted}
        write_private(note_of(folder), json.dumps(note))
        for name in wanted:
            have[name] = _receive_file(folder, name, files[name], data)
        kept = [name for name in gone if not _remove(folder, name, known)]
        note["files"] = {name: _seen(folder, name, entry[3]) for name, entry in have.items()}
        note["sending"] = {}
        write_private(note_of(folder), json.dumps(note))
        _make_repository(folder)
    return {"have": digest_of(have), "folder": folder, "kept": kept}


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Let one at a time send to a folder."""
    os.close(open_own_directory(os.path.dirname(note_of(folder))))
    with open(f"{note_of(folder)}.lock", "w") as file:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _content(folder: str, name: str, known: Mapping[str, Any]) -> Optional[str]:
    """Return the hash of a file, or the target of a link; None if there is none."""
    path = os.path.join(folder, name)
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if os.path.islink(path):
        return os.readlink(path)
    if known.get(name, [])[1:] == [status.st_mtime_ns, status.st_size]:
        return str(known[name][0])
    return sha256_of(path)


def _seen(folder: str, name: str, content: str) -> List[Any]:
    status = os.lstat(os.path.join(folder, name))
    return [content, status.st_mtime_ns, status.st_size]


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return True if --allow names a file."""
    import fnmatch

    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _receive_file(folder: str, name: str, entry: Any, data: BinaryIO) -> List[Any]:
    """Write one file; returns its entry as it now is."""
    kind, executable, size, content = entry
    path = os.path.join(folder, name)
    if kind == "file":
        digest = write_file(path, size, data.read, executable=bool(executable))
        return [kind, executable, size, digest]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    aside = f"{path}.neuronctl-{os.getpid()}"
    os.symlink(content, aside)
    os.replace(aside, path)
    return [kind, executable, size, content]


def _remove(folder: str, name: str, known: Mapping[str, Any]) -> bool:
    """Remove a file that is gone on the other side, unless it was changed here."""
    mine = _content(folder, name, known)
    if mine is not None and mine != known[name][0]:
        return False
    path = os.path.join(folder, name)
    with contextlib.suppress(OSError):
        os.unlink(path)
        os.removedirs(os.path.dirname(path))  # those that are empty now
    return True


def _draft(directory: str, files: Manifest, scripts: List[str], data: BinaryIO) -> Dict[str, Any]:
    """Make a folder with the names of a project, and the content of its scripts alone."""
    import tempfile

    os.makedirs(directory, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=".dry-run-", dir=directory)
    for name, entry in files.items():
        if name in scripts:
            _receive_file(folder, name, entry, data)
        else:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w"):
                pass
    _make_repository(folder)
    return {"folder": folder}


def _make_repository(folder: str) -> None:
    """Let snapshots of the code be made: git knows what the project ignores.

    A directory that it ignores is linked into them, so that what jobs write there is not in a copy.
    """
    if not os.path.exists(os.path.join(folder, ".git")):
        from neuronctl.common.errors import NeuronctlError
        from neuronctl.records.provenance import git

        with contextlib.suppress(NeuronctlError):
            git(folder, "init", "--quiet")
    for line in head(os.path.join(folder, ".gitignore"), 65536).decode(errors="replace").split():
        if re.fullmatch(r"/?[A-Za-z0-9][\w-]*/", line) and line.strip("/") not in _NO_RESULTS:
            os.makedirs(os.path.join(folder, line.strip("/")), exist_ok=True)


def give(request: Mapping[str, Any], data: BinaryIO) -> Dict[str, Any]:
    """Send a file, or those of a directory, as far as the other side wants them."""
    top = _place_of(request)
    paths = list(_files_below(top)) if os.path.isdir(top) else [(top, "")]
    entries = []
    for path, name in paths:
        status = os.stat(path)
        entries.append([name, int(status.st_mode & 0o100 > 0), status.st_size, status.st_mtime_ns])
    say({"files": entries})
    for number in json.loads(data.readline())["wanted"]:
        with open(paths[number][0], "rb") as file:
            size = os.fstat(file.fileno()).st_size
            say({"size": size})
            while size:
                part = file.read(min(size, 1 << 20))
                if not part:
                    raise EOFError(f"{paths[number][0]} became shorter meanwhile")
                size -= len(part)
                while part:
                    part = part[os.write(1, part) :]
    return {}


def _place_of(request: Mapping[str, Any]) -> str:
    """Return the path that is asked for: in the project, or in the newest copy of its code."""
    import glob

    from neuronctl.records.store import RecordStore

    folder = project_folder(request)
    below = os.path.join(request["below"], request["path"])
    place = os.path.join(folder, below)
    if os.path.exists(place):
        return place
    for record in RecordStore.default().iter():
        copy = str(record.rest.get("snapshot") or "")
        runs = glob.glob(os.path.join(glob.escape(copy), "runs", f"{record.job_id}*", below))
        if copy and runs and record.cwd.startswith(folder):
            return max(runs, key=os.path.getmtime)
    raise UsageError(f"no such file on the cluster: {place}")


def _files_below(top: str) -> Iterator[Tuple[str, str]]:
    for folder, names, files in os.walk(top):
        names[:] = sorted(name for name in names if name != ".git")
        for name in sorted(name for name in files if name != ".git"):
            path = os.path.join(folder, name)
            if os.path.isfile(path):  # a link to one comes as a file
                yield path, os.path.relpath(path, top)
