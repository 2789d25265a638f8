"""Answer requests from another machine, in a process that its ssh session starts here.

A request is a command line, for which ``answer`` prepares this process, or files to receive or to
send.
"""

from __future__ import annotations

import atexit
import binascii
import contextlib
import errno
import fcntl
import fnmatch
import hashlib
import json
import os
import re
import signal
import sys
import threading
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.errors import NeuronctlError, UsageError, did_you_mean
from neuronctl.common.files import (
    file_sha256,
    head,
    is_own_directory,
    open_own_directory,
    read_private,
    write_private,
)
from neuronctl.common.paths import state_dir
from neuronctl.common.spelling import set_remote

_COPIED = ("submit", "generate", "sweep")
"""Commands whose jobs run a copy of the code that was sent; code sent later does not change it."""

_NO_RESULTS = ("venv", "env", "node_modules", "build", "dist")
"""Directories that .gitignore often names, although jobs write no results there."""

Manifest = Dict[str, Tuple[int, int, str]]
"""The files of a project: name -> (executable, bytes, SHA-256)."""


def answer(mark: str, packed: str) -> bool:
    """Answer a request; return True if its command line is to be run now.

    mark: the beginning of our own first line. packed: the request, as JSON in Base64.
    """
    request = json.loads(binascii.a2b_base64(packed))
    # A terminal is the same for both streams.
    for stream in (1,) if request.get("tty") else (1, 2):
        os.write(stream, f"\036{mark} begin\n".encode())
    try:
        if request["verb"] == "run":
            _prepare(request)
            return True
        with open(0, "rb", 1 << 18, closefd=False) as data:
            if request["verb"] == "hello":
                _say(directory=_projects_directory())
            elif request["verb"] == "push":
                _receive(request, data)
            else:
                _give(request, data)
    except NeuronctlError as error:
        _say(error=error.message, hint=error.hint, code=error.exit_code)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"{os.uname().nodename}: {getattr(error, 'filename', None) or 'files'}: {reason}"
        hint = "free space there, or make the directory writable, and try again"
        _say(error=message, hint=hint, code=UsageError.exit_code)
    return False


def _say(**data: Any) -> None:
    """Answer with a line of JSON."""
    write_all(json.dumps(data).encode() + b"\n")


def write_all(data: bytes) -> None:
    """Write bytes to standard output, unbuffered."""
    while data:
        data = data[os.write(1, data) :]


def _projects_directory() -> str:
    """Return the directory of projects on this machine."""
    from neuronctl.common.users import login_name
    from neuronctl.request.job_file import own_cluster

    scratch = (own_cluster().scratch or "").replace("{user}", login_name())
    base = scratch if scratch and is_own_directory(scratch) else os.path.expanduser("~")
    return os.path.join(base, "neuronctl")


def _prepare(request: Mapping[str, Any]) -> None:
    """Set up this process as the command line expects."""
    root = request["dry"] or _project_folder(request)  # "dry": the folder that _draft created
    is_copied = request["words"][0] in _COPIED and os.path.isdir(root)
    has_code = is_copied and _make_repository(root)
    set_remote(request["name"], request["commands"], has_code=has_code)
    if request["dry"]:
        import shutil

        atexit.register(shutil.rmtree, root, ignore_errors=True)
    folder = os.path.join(root, request["below"])
    os.chdir(folder if os.path.isdir(folder) else os.path.expanduser("~"))
    os.environ.update(request["environment"], PWD=os.getcwd())
    words = (word.encode("latin-1") for word in request["words"])  # they may be any bytes
    sys.argv = ["neuronctl", *(word.decode("utf-8", "surrogateescape") for word in words)]
    if request["tty"] or request["input"]:
        return  # the command line reads standard input itself
    control = os.dup(0)  # its end says that the caller is gone
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if request["waits"]:
        threading.Thread(target=_interrupt_at_end, args=(control,), daemon=True).start()


def _interrupt_at_end(control: int) -> None:
    """Act as for Ctrl-C once the caller closes our input or is gone."""
    while os.read(control, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)


def is_safe(name: str) -> bool:
    """Return True if a relative path stays below its start."""
    if name == ".":
        return True
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def list_digest(files: Mapping[str, Any]) -> str:
    """Return one hash of a list of files: name -> its entry."""
    text = json.dumps({name: list(entry) for name, entry in files.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def is_allowed(name: str, patterns: Sequence[str]) -> bool:
    """Return True if --allow names a file."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def send_file(path: str, size: int, write: Callable[[bytes], object]) -> None:
    """Write the first ``size`` bytes of a file; raise OSError, also if it is shorter."""
    with open(path, "rb", 0) as file:
        while size:
            part = file.read(min(size, 1 << 16))
            if not part:
                raise OSError(errno.EIO, "it became shorter while it was sent", path)
            write(part)
            size -= len(part)


def write_file(
    path: str, size: int, data: Any, *, executable: bool, changed: Optional[int] = None
) -> List[Any]:
    """Write a file, which appears once it is complete; return its SHA-256, time in ns, and size.

    size: bytes to take from ``data``. changed: its time in nanoseconds; None: now. Raises EOFError
    if there are fewer bytes, and OSError.
    """
    folder, name = os.path.split(path)
    os.makedirs(folder or ".", exist_ok=True)
    aside = os.path.join(folder, f".{name[:100]}.{os.getpid()}.neuronctl")
    mode = 0o777 if executable else 0o666
    digest = hashlib.sha256()
    left = size
    try:
        with open(aside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            while left:
                part = data.read(min(left, 1 << 20))
                if not part:
                    raise EOFError("a file became shorter, or the connection ended")
                digest.update(part)
                file.write(part)
                left -= len(part)
        if changed is not None:
            os.utime(aside, ns=(changed, changed))
        status = os.stat(aside)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
    return [digest.hexdigest(), status.st_mtime_ns, size]


def files_below(top: str, skipped: Sequence[str] = (".git",)) -> Iterator[Tuple[str, str]]:
    """Yield the path of each file and link in a directory, and its path below ``top``.

    If ``top`` is a file, yield it with "". skipped: names of files and directories.
    """
    if os.path.isfile(top):
        yield top, ""
    for folder, names, files in os.walk(top):
        files += [name for name in names if os.path.islink(os.path.join(folder, name))]
        names[:] = sorted({*names} - {*skipped})
        for name in sorted({*files} - {*skipped}):
            path = os.path.join(folder, name)
            yield path, os.path.relpath(path, top)


def _note_of(folder: str) -> str:
    """Return the file that lists what was sent into a folder."""
    key = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return os.path.join(state_dir(), "projects", f"{key}.json")


def _read_note(folder: str) -> Dict[str, Any]:
    """Return what was sent into a folder, and from where; {} if nothing was."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(read_private(_note_of(folder))))
    return {}


def _project_folder(request: Mapping[str, Any]) -> str:
    """Return a project's directory; a different project of the same name gets its own."""
    folder: str = os.path.join(request["directory"], request["project"])
    if _read_note(folder).get("origin", request["origin"]) == request["origin"]:
        return folder
    return f"{folder}-{hashlib.sha256(request['origin'].encode()).hexdigest()[:6]}"


def _receive(request: Mapping[str, Any], data: BinaryIO) -> None:
    """Receive a project: its list, then the content of the missing files."""
    files: Manifest = json.loads(data.readline())
    if not all(map(is_safe, files)):
        raise UsageError("a name of the project leads out of it")
    folder = _project_folder(request)
    os.close(open_own_directory(os.path.dirname(_note_of(folder))))
    with open(f"{_note_of(folder)}.lock", "w") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        noted = _read_note(folder).get("files", {})
        present, wanted, changed = _compare(folder, files, noted, request["allow"])
        _say(wanted=wanted, changed=changed)
        if changed:
            return  # the other side tells its user, and sends nothing
        if request["dry"]:
            _say(folder=_draft(request["directory"], files, request["scripts"], data))
            return
        os.makedirs(folder, exist_ok=True)  # jobs of a project without files run there, too
        surplus = [name for name in noted if name not in files]
        not_removed: List[str] = []
        older_notes = noted  # after a loss, still true of the files that did not arrive
        if wanted or surplus or not noted:
            try:
                for name in wanted:
                    executable, size, _ = files[name]
                    path = os.path.join(folder, name)
                    present[name] = write_file(path, size, data, executable=bool(executable))
                not_removed = [name for name in surplus if not _remove(folder, name, noted)]
                older_notes = {}
            finally:  # files received before a loss are not local changes
                note = {"origin": request["origin"], "files": {**older_notes, **present}}
                write_private(_note_of(folder), json.dumps(note))
    arrived: Manifest = {
        name: (mode, size, present[name][0]) for name, (mode, size, _) in files.items()
    }
    _say(have=list_digest(arrived), folder=folder, kept=not_removed)


def _compare(
    folder: str, files: Manifest, noted: Mapping[str, Any], allowed: Sequence[str]
) -> Tuple[Dict[str, List[Any]], List[str], List[str]]:
    """Return the files that are here already, those to send, and those that were changed here.

    Each of the first comes with its SHA-256, time in ns, and size; noted has these values for the
    files that were sent last time. allowed: patterns of files that may be overwritten.
    """
    present: Dict[str, List[Any]] = {}
    missing: List[str] = []
    changed: List[str] = []
    is_new = not os.path.isdir(folder)
    for name, (executable, _, digest) in files.items():
        content = None if is_new else _content(folder, name, noted)
        if content is None:
            missing.append(name)
            continue
        digest_here = content[0]
        noted_digest = noted.get(name, [""])[0]
        is_executable = os.stat(os.path.join(folder, name)).st_mode & 0o100
        if digest_here == digest and (is_executable or not executable):
            present[name] = content
        # The file is as it was sent last time, or lacks only the right to be executed.
        elif digest_here in (noted_digest, digest) or is_allowed(name, allowed):
            missing.append(name)
        else:
            changed.append(name)
    return present, missing, changed


def _content(folder: str, name: str, noted: Mapping[str, Any]) -> Optional[List[Any]]:
    """Return a file's SHA-256, time in ns, and size; None if it is missing."""
    path = os.path.join(folder, name)
    try:
        status = os.stat(path)
    except OSError:
        return None
    state = [status.st_mtime_ns, status.st_size]
    if noted.get(name, [])[1:] == state:  # as when it was hashed
        return list(noted[name])
    return [file_sha256(path), *state]


def _remove(folder: str, name: str, noted: Mapping[str, Any]) -> bool:
    """Remove a file that is gone on the other side; return False if it was changed here."""
    content = _content(folder, name, noted)
    if content and content[0] != noted[name][0]:
        return False
    path = os.path.join(folder, name)
    with contextlib.suppress(OSError):
        os.unlink(path)
        os.removedirs(os.path.dirname(path))  # removes empty ones
    return True


def _draft(directory: str, files: Manifest, scripts: List[str], data: BinaryIO) -> str:
    """Create a project's files in a new folder, all empty except its scripts; return the folder.

    scripts: names of files. data: the scripts' contents, in the order of ``files``.
    """
    import tempfile

    os.makedirs(directory, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=".dry-run-", dir=directory)
    for name, (executable, size, _) in files.items():
        sent = size if name in scripts else 0
        write_file(os.path.join(folder, name), sent, data, executable=bool(executable))
    return folder


def _make_repository(folder: str) -> bool:
    """Make a git repository of a folder, as snapshots of its code need; return False if git fails.

    Create the directories that .gitignore names: a snapshot links to them, so that results are
    written to the folder and not to a copy.
    """
    repository = os.path.join(folder, ".git")
    has_repository = os.path.isdir(repository)
    if not has_repository:
        from neuronctl.records.provenance import git

        # The .git of a worktree is a file: git fails if it names a directory of another machine.
        words = ("rev-parse", "--git-dir") if os.path.exists(repository) else ("init", "--quiet")
        with contextlib.suppress(NeuronctlError):
            git(folder, *words)
            has_repository = True
    for line in head(os.path.join(folder, ".gitignore"), 65536).decode(errors="replace").split():
        # A directory at the top, such as results/ or /results/.
        if re.fullmatch(r"/?[A-Za-z0-9][\w-]*/", line) and line.strip("/") not in _NO_RESULTS:
            os.makedirs(os.path.join(folder, line.strip("/")), exist_ok=True)
    return has_repository


def _give(request: Mapping[str, Any], data: BinaryIO) -> None:
    """Send a file, or the files of a directory that the other side wants.

    Each is sent with the size in the list, even if it has grown; if one is shorter, this process
    ends.
    """
    paths: List[str] = []
    sizes: List[int] = []
    entries: List[List[Any]] = []
    for path, name in files_below(_find(request)):
        if not os.path.isfile(path):
            continue
        status = os.stat(path)
        paths.append(path)
        sizes.append(status.st_size)
        entries.append([name, int(status.st_mode & 0o100 > 0), status.st_size, status.st_mtime_ns])
    _say(files=entries)
    for number in json.loads(data.readline())["wanted"]:
        path = paths[number]
        try:
            send_file(path, sizes[number], write_all)
        except OSError as error:
            sys.exit(f"neuronctl: cannot read {path}: {error.strerror}")


def _find(request: Mapping[str, Any]) -> str:
    """Return the requested path: in the project, or in the newest copy of its code that has it."""
    import glob

    from neuronctl.records.store import RecordStore

    folder = _project_folder(request)
    below = os.path.normpath(os.path.join(request["below"], request["path"]))
    place = os.path.join(folder, below)
    if os.path.exists(place):
        return place
    for record in RecordStore.default().iter():
        snapshot = str(record.rest.get("snapshot") or "")
        if not snapshot or not f"{record.cwd}/".startswith(f"{folder}/"):
            continue
        # The tasks of an array have copies of their own, and those of a sweep share one.
        pattern = os.path.join(glob.escape(snapshot), "runs", "*", glob.escape(below))
        copies = glob.glob(pattern)
        if copies:
            return max(copies, key=os.path.getmtime)
    parent, name = os.path.split(place)
    names = {*os.listdir(parent)} - {".git"} if os.path.isdir(parent) else set()
    hint = "submit sends the project, and 'pull .' brings back all of it"
    if names:
        hint = did_you_mean(name, names)
    raise UsageError(f"no such file on the cluster: {place}", hint)
