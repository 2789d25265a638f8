"""The user's side of a project: what is sent of it, what is refused, and what comes back.

A file travels as its bytes, as many as were announced; nothing of the other side's answers names a
place outside what was asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.console import printable
from neuronctl.common.errors import ConnectionLostError, NeuronctlError, UsageError
from neuronctl.common.files import head, open_regular, sha256_of
from neuronctl.common.frozen import dataclass
from neuronctl.common.words import amount, counted
from neuronctl.remote.channel import Session
from neuronctl.remote.connection import Remote, Tell
from neuronctl.remote.files import Manifest, digest_of, is_safe, matches, write_file
from neuronctl.remote.payload import run
from neuronctl.remote.place import Project

_MOST = 200 * 1000 * 1000
"""Bytes of a project that are sent without being allowed by name."""

_NO_PROJECT = (".git", "__pycache__", "node_modules")

_PRIVATE_KEYS = (b" PRIVATE KEY-----", b" PRIVATE KEY BLOCK-----", b"PuTTY-User-Key-File")
"""What a private key has in its first lines."""

_ENV_FILE = re.compile(r"\.env(?!\.(?:example|sample|template|dist)$)(?:\..*)?|.*\.env")


# ------------------------------------------------------------------------- sending


def manifest(project: Project, allowed: Sequence[str], tell: Tell) -> Manifest:
    """Return what is sent: name -> (kind, executable, size, SHA-256 or the link's target).

    allowed: patterns of names that are sent although they are private or large. Raises UsageError,
    which names each file that is refused.
    """
    found: Manifest = {}
    refused: List[str] = []
    for name in _names(project.root):
        path = os.path.join(project.root, name)
        if os.path.islink(path):
            target = os.readlink(path)
            if is_safe(os.path.normpath(os.path.join(os.path.dirname(name), target))):
                found[name] = ("link", 0, 0, target)
            else:
                tell(f"not sent: {printable(name)}, a link out of the project")
        elif os.path.isdir(path):
            tell(f"not sent: {printable(name)}, a repository of its own")
        elif os.path.isfile(path):
            if not matches(name, allowed):
                refused += _refusal(name, path)
            size, executable = os.stat(path).st_size, os.access(path, os.X_OK)
            found[name] = ("file", int(executable), size, "")
    if refused:
        raise UsageError(
            f"not sent: {', '.join(refused)}",
            "add it to .gitignore; to send it all the same: --allow NAME, after --on",
        )
    sizes = {n: e[2] for n, e in found.items() if not matches(n, allowed)}
    if sum(sizes.values()) > _MOST:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
        shown = ", ".join(f"{printable(name)} ({amount(sizes[name])})" for name in largest)
        raise UsageError(
            f"not sent: the project has {amount(sum(sizes.values()))}, more than "
            f"{amount(_MOST)}; the largest: {shown}",
            "add data to .gitignore and copy it to the cluster once; or --allow NAME, after --on",
        )
    for name, entry in found.items():
        if entry[0] == "file":
            digest = sha256_of(os.path.join(project.root, name))
            if not digest:
                raise UsageError(f"cannot read {printable(name)}", "its project cannot be sent")
            found[name] = (*entry[:3], digest)
    return found


def _refusal(name: str, path: str) -> List[str]:
    if _ENV_FILE.fullmatch(os.path.basename(name)):
        return [f"{printable(name)} (a file of secrets)"]
    beginning = head(path, 4096)
    if any(sign in beginning for sign in _PRIVATE_KEYS):
        return [f"{printable(name)} (a private key)"]
    return []


def _names(root: str) -> List[str]:
    """Return what git tracks or does not ignore; without git, all files but environments."""
    if os.path.exists(os.path.join(root, ".git")):
        from neuronctl.records.provenance import git

        listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return sorted({name.rstrip("/") for name in listed.split("\0") if name})
    if root in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise UsageError(f"{root} is no project", "change to the directory of your project")
    names: List[str] = []
    for folder, below, files in os.walk(root):
        kept = [name for name in below if name not in _NO_PROJECT]
        below[:] = [n for n in kept if not os.path.exists(os.path.join(folder, n, "pyvenv.cfg"))]
        names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
        links = [name for name in below if os.path.islink(os.path.join(folder, name))]
        names += [os.path.relpath(os.path.join(folder, name), root) for name in links]
    return sorted(names)


def send(remote: Remote, project: Project, allowed: Sequence[str], tell: Tell) -> None:
    """Send what differs. Raises ConnectionLostError unless the other side says that it has all."""
    files = manifest(project, allowed, tell)
    session, answer = _ask(remote, project, files, {"dry": False, "allow": list(allowed)}, tell)
    wanted = _wanted(answer, files)
    for name in wanted:
        if files[name][0] == "file":
            _send_file(session, os.path.join(project.root, name), files[name][2])
    said = session.read_json()
    session.finish()
    _raise_error(said)
    if said.get("have") != digest_of(files):
        raise ConnectionLostError("the project did not arrive whole", "run it again")
    if wanted:
        size = amount(sum(files[name][2] for name in wanted))
        where = printable(str(said.get("folder")))
        tell(f"sent {counted(len(wanted), 'file')} ({size}) to {remote.name}:{where}")
    for name in _texts(said.get("kept")):
        tell(f"{printable(name)} is gone here, but was changed on {remote.name}: kept there")


def send_draft(
    remote: Remote, project: Project, words: Sequence[str], allowed: Sequence[str], tell: Tell
) -> Tuple[str, List[Tuple[str, int]]]:
    """Send the names of the files, and the content only of those that ``words`` name.

    Returns the folder there, with empty files for all others, and (name, bytes) of each file that
    would be sent.
    """
    files = manifest(project, allowed, tell)
    named = {os.path.normpath(os.path.join(project.below, word)) for word in (*words, "job.yaml")}
    scripts = sorted(named & files.keys())
    extra = {"dry": True, "allow": list(allowed), "scripts": scripts}
    session, answer = _ask(remote, project, files, extra, tell)
    for name in scripts:
        if files[name][0] == "file":
            _send_file(session, os.path.join(project.root, name), files[name][2])
    said = session.read_json()
    session.finish()
    _raise_error(said)
    return str(said.get("folder")), [(name, files[name][2]) for name in _wanted(answer, files)]


def _ask(
    remote: Remote, project: Project, files: Manifest, extra: Mapping[str, Any], tell: Tell
) -> Tuple[Session, Dict[str, Any]]:
    request = {"verb": "push", "directory": remote.directory, **project.request, **extra}
    session, _ = run(remote, request, tell)
    session.write(json.dumps(files).encode() + b"\n")
    answer = session.read_json()
    if "error" in answer:
        session.finish()
        _raise_error(answer)
    changed = _texts(answer.get("changed"))
    if changed:
        session.finish()
        raise UsageError(
            f"changed on {remote.name} and not overwritten: {', '.join(map(printable, changed))}",
            "bring it here with 'pull', or overwrite it there: --allow NAME, after --on",
        )
    return session, answer


def _wanted(answer: Mapping[str, Any], files: Manifest) -> List[str]:
    wanted = _texts(answer.get("wanted"))
    foreign = [name for name in wanted if name not in files]
    if foreign:
        raise UsageError(f"the cluster asks for what is not sent: {printable(foreign[0])}")
    return wanted


def _send_file(session: Session, path: str, size: int) -> None:
    try:
        with open_regular(path) as file:
            while size:
                part = file.read(min(size, 1 << 20))
                if not part:
                    raise UsageError(f"{printable(path)} changed while it was sent", "try again")
                session.write(part)
                size -= len(part)
    except OSError as error:
        raise UsageError(f"cannot read {printable(path)}: {error.strerror}") from None


def _texts(value: Any) -> List[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _raise_error(said: Mapping[str, Any]) -> None:
    """Raise what the other side says went wrong."""
    if "error" in said:
        error = NeuronctlError(str(said["error"]), str(said.get("hint", "")))
        code = said.get("code")
        error.exit_code = code if isinstance(code, int) and 0 < code < 126 else 1
        raise error


# ------------------------------------------------------------------------- bringing back


@dataclass(frozen=True)
class Pulled:
    """What a pull did. came: names of files; kept: of those that are newer here."""

    came: Tuple[str, ...]
    kept: Tuple[str, ...]
    size: int


def pull(remote: Remote, project: Project, path: str, tell: Tell) -> Pulled:
    """Bring a file or directory of the project's copy to the same place here.

    A file that is newer here stays. Raises UsageError for a name that leads elsewhere.
    """
    request = {"verb": "pull", "directory": remote.directory, "path": path, **project.request}
    session, _ = run(remote, request, tell)
    answer = session.read_json()
    _raise_error(answer)
    top = os.path.basename(path.rstrip("/")) if os.path.isabs(path) else os.path.normpath(path)
    if not is_safe(top):
        raise UsageError(f"{path} is outside this directory", "change to the one it belongs in")
    entries = _entries(answer.get("files"), remote)
    came, kept, wanted = [], [], []
    for number, (name, _, size, changed) in enumerate(entries):
        status = _status(os.path.join(top, name) if name else top)
        if status is None or status.st_mtime_ns < changed:
            wanted.append(number)
        elif (status.st_size, status.st_mtime_ns) != (size, changed):
            kept.append(name or top)
    session.write(json.dumps({"wanted": wanted}).encode() + b"\n")
    total = 0
    for number in wanted:
        name, executable, _, changed = entries[number]
        size = session.read_json().get("size")
        if not isinstance(size, int) or size < 0:
            raise session.loss()
        place = os.path.join(top, name) if name else top
        _check_way(place)
        write_file(place, size, session.read, executable=executable, changed=changed)
        total += size
        came.append(place)
    session.finish()
    return Pulled(tuple(came), tuple(kept), total)


def _entries(value: Any, remote: Remote) -> List[Tuple[str, bool, int, int]]:
    """Return (name, executable, bytes, time in ns) of each file, as the other side lists them.

    Raises UsageError for a name that leads elsewhere, or into a repository, whose files git runs.
    """
    entries = []
    for each in value if isinstance(value, list) else ():
        try:
            name, executable, size, changed = each
            entry = (str(name), bool(executable), int(size), int(changed))
        except (TypeError, ValueError):
            raise UsageError(f"{remote.name} sends a list of files that cannot be read") from None
        if entry[0] and (not is_safe(entry[0]) or ".git" in entry[0].lower().split("/")):
            raise UsageError(f"{remote.name} sends a name that leads elsewhere: {entry[0]!r}")
        entries.append(entry)
    return entries


def _status(path: str) -> Optional[os.stat_result]:
    with contextlib.suppress(OSError):
        return os.lstat(path)
    return None


def _check_way(place: str) -> None:
    """Refuse a way through a link that leads out of the current directory."""
    here = os.path.realpath(os.getcwd())
    parent = os.path.realpath(os.path.dirname(place) or ".")
    if os.path.commonpath([here, parent]) != here:
        raise UsageError(f"{printable(place)} leads out of this directory through a link")
