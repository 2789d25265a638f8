"""The user's side of a project: what is sent, what is refused, and what comes back.

Each file is sent with exactly the announced number of bytes. Names in the other side's answers
never lead outside what was asked for.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from neuronctl.common.console import printable
from neuronctl.common.errors import ConnectionLostError, UsageError
from neuronctl.common.files import file_sha256, head
from neuronctl.common.words import amount, counted
from neuronctl.remote import host
from neuronctl.remote.connection import Remote, Tell
from neuronctl.remote.host import Manifest, is_allowed, is_safe
from neuronctl.remote.session import Session, run

_MOST = 200 * 1000 * 1000
"""Most bytes of a project, apart from files that --allow names, that are sent."""

_NO_PROJECT = (".git", "__pycache__", "node_modules")

_PRIVATE_KEY = re.compile(rb" PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File")
"""What a private key has in its first lines."""

_ENV_FILE = re.compile(r"\.env(?!\.(?:example|sample|template|dist)$)(?:\..*)?|.*\.env")
"""``.env``, ``.env.NAME``, and ``NAME.env``, but not an example such as ``.env.sample``."""


class Project(NamedTuple):
    """A directory on this machine. below: the path in it from which neuronctl was called."""

    root: str
    below: str

    def request(self, remote: Remote, verb: str, **more: Any) -> Dict[str, Any]:
        """Return a request about the project's copy on the other side."""
        origin = f"{os.uname().nodename}:{self.root}"
        name = os.path.basename(self.root) or "project"
        place = {"directory": remote.directory, "project": name, "below": self.below}
        return {"verb": verb, "origin": origin, **place, **more}


def find_project() -> Project:
    """Return the repository around the current directory, or that directory itself."""
    here = root = os.path.realpath(os.getcwd())
    while not os.path.exists(os.path.join(root, ".git")):
        if root == os.path.dirname(root):
            return Project(here, ".")
        root = os.path.dirname(root)
    return Project(root, os.path.relpath(here, root))


def manifest(project: Project, allowed: Sequence[str], tell: Tell) -> Manifest:
    """Return the files to send; a link within the project is sent as the file that it names.

    allowed: patterns of names that are sent although they are private or large. Raises UsageError,
    which names each file that is refused.
    """
    sizes: Dict[str, int] = {}
    for name in _names(project.root):
        path = os.path.realpath(os.path.join(project.root, name))
        if os.path.isdir(path):
            tell(f"not sent: {printable(name)}, a repository of its own, or a link to a directory")
        elif not path.startswith(os.path.join(project.root, "")):
            tell(f"not sent: {printable(name)}, a link out of the project")
        elif ".git" in path[len(project.root) :].split("/"):
            tell(f"not sent: {printable(name)}, a link into the repository's own files")
        elif os.path.isfile(path):  # git still lists removed files
            sizes[name] = os.path.getsize(path)
    not_allowed = {name for name in sizes if not is_allowed(name, allowed)}
    _refuse_large({name: sizes[name] for name in not_allowed})
    _refuse_secrets(project, sorted(not_allowed))

    files: Manifest = {}
    for name, size in sizes.items():
        path = os.path.join(project.root, name)
        digest = file_sha256(path)
        if not digest:
            raise UsageError(f"cannot read {printable(path)}")
        files[name] = (int(os.access(path, os.X_OK)), size, digest)
    return files


def _refuse_large(sizes: Mapping[str, int]) -> None:
    """Raise UsageError for files that have too many bytes together."""
    total = sum(sizes.values())
    if total <= _MOST:
        return
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    shown = ", ".join(f"{printable(name)} ({amount(sizes[name])})" for name in largest)
    raise UsageError(
        f"not sent: the project has {amount(total)}, more than {amount(_MOST)}; the largest: "
        f"{shown}",
        "add data to .gitignore and copy it to the cluster once; or --allow NAME, after --on",
    )


def _refuse_secrets(project: Project, names: Sequence[str]) -> None:
    """Raise UsageError for files of secrets and private keys."""
    refused: List[str] = []
    for name in names:
        path = os.path.realpath(os.path.join(project.root, name))
        if any(_ENV_FILE.fullmatch(os.path.basename(each)) for each in (name, path)):
            refused.append(f"{printable(name)} (a file of secrets)")
        elif _PRIVATE_KEY.search(head(path, 4096)):
            refused.append(f"{printable(name)} (a private key)")
    if refused:
        raise UsageError(
            f"not sent: {', '.join(refused)}",
            "add it to .gitignore; to send it all the same: --allow NAME, after --on",
        )


def _names(root: str) -> List[str]:
    """Return the files that git tracks or does not ignore.

    Without git, return all files except those in virtual environments.
    """
    if os.path.exists(os.path.join(root, ".git")):
        from neuronctl.records.provenance import git

        listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return sorted({name.rstrip("/") for name in listed.split("\0") if name})
    if root in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise UsageError(f"{root} is no project", "change to the directory of your project")
    names = [name for _, name in host.files_below(root, _NO_PROJECT)]
    marks = [name for name in names if name.endswith("pyvenv.cfg") and name != "pyvenv.cfg"]
    environments = tuple(name[: -len("pyvenv.cfg")] for name in marks)
    return [name for name in names if not name.startswith(environments)]


def send(
    remote: Remote,
    project: Project,
    allowed: Sequence[str],
    tell: Tell,
    *,
    scripts: Optional[Sequence[str]] = None,
) -> Tuple[str, List[Tuple[str, int]]]:
    """Send the files that differ; return the directory there, and their (name, bytes).

    scripts: for a dry run, its scripts: a new directory then has the names of all files, and only
    the scripts' content. Raises UsageError, and ConnectionLostError unless the other side says that
    it has all.
    """
    is_dry_run = scripts is not None
    script_names = [os.path.normpath(os.path.join(project.below, word)) for word in scripts or ()]
    details = {"allow": list(allowed), "dry": is_dry_run, "scripts": script_names}
    files: Manifest = {}
    session = run(
        remote,
        project.request(remote, "push", **details),
        tell,
        meanwhile=lambda: files.update(manifest(project, allowed, tell)),
    )
    session.write(json.dumps(files).encode() + b"\n")
    wanted = _read_wanted(session, files, remote)
    sizes = {name: size for name, (_, size, _) in files.items()}
    to_send = [name for name in files if name in script_names] if is_dry_run else wanted
    for name in to_send:
        _send_content(session, project, name, sizes[name])
    answer = session.read_json()
    session.finish()
    folder = str(answer.get("folder"))
    wanted_sizes = [(name, sizes[name]) for name in wanted]
    if is_dry_run:
        return folder, wanted_sizes
    if answer.get("have") != host.list_digest(files):
        raise ConnectionLostError("the project did not arrive whole", "run it again")
    if wanted:
        total_size = sum(size for _, size in wanted_sizes)
        total = f"{counted(len(wanted), 'file')} ({amount(total_size)})"
        tell(f"sent {total} to {remote.name}:{printable(folder)}")
    for name in _texts(answer.get("kept")):
        tell(f"{printable(name)} is gone here, but was changed on {remote.name}: kept there")
    return folder, wanted_sizes


def _read_wanted(session: Session, files: Manifest, remote: Remote) -> List[str]:
    """Return the names of the files that the other side wants.

    Raises UsageError if it asks for other files, or if files were changed there.
    """
    answer = session.read_json()
    changed = ", ".join(map(printable, _texts(answer.get("changed"))))
    if changed:
        session.finish()
        raise UsageError(
            f"changed on {remote.name} and not overwritten: {changed}",
            "bring it here with 'pull', or overwrite it there: --allow NAME, after --on",
        )
    wanted = _texts(answer.get("wanted"))
    for name in wanted:
        if name not in files:
            raise UsageError(f"the cluster asks for what is not sent: {printable(name)}")
    return wanted


def _send_content(session: Session, project: Project, name: str, size: int) -> None:
    """Send the first ``size`` bytes of a file; raise UsageError if it cannot be read."""
    try:
        host.send_file(os.path.join(project.root, name), size, session.write)
    except OSError as error:
        raise UsageError(f"cannot read {printable(name)}: {error.strerror}") from None


def _texts(value: Any) -> List[str]:
    """Return the texts in a list of JSON; [] for any other value."""
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def pull(remote: Remote, path: str, tell: Tell) -> List[str]:
    """Bring a file or directory of the project's copy to the same place here.

    Return the names of the files that came; a file that is newer here stays. Raises UsageError for
    a name that leads elsewhere.
    """
    # What an absolute path names on the cluster comes into this directory.
    top = os.path.basename(path.rstrip("/")) if os.path.isabs(path) else os.path.normpath(path)
    if not is_safe(top):
        raise UsageError(f"{path} is outside this directory", "change to the one it belongs in")
    session = run(remote, find_project().request(remote, "pull", path=path), tell)
    files = _read_list(session.read_json().get("files"), top, remote)
    wanted = []
    for number, (place, _, size, changed) in enumerate(files):
        status = os.lstat(place) if os.path.lexists(place) else None
        if status is None or status.st_mtime_ns < changed:
            wanted.append(number)
        elif (status.st_size, status.st_mtime_ns) != (size, changed):
            tell(f"{printable(place)} is newer here: kept")
    session.write(json.dumps({"wanted": wanted}).encode() + b"\n")
    session.close_input()
    for number in wanted:
        _receive_file(session, *files[number])
    session.finish()
    tell(f"{printable(path)}: {len(wanted)} of {counted(len(files), 'file')} came")
    return [files[number][0] for number in wanted]


def _receive_file(session: Session, place: str, executable: bool, size: int, changed: int) -> None:
    """Write the next file of a session; raise ConnectionLostError if it breaks off."""
    _check_way(place)
    try:
        host.write_file(place, size, session, executable=executable, changed=changed)
    except EOFError:
        error = session.loss()
        raise ConnectionLostError(
            f"{error.message}: {printable(place)} did not arrive whole", error.hint
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write {printable(place)}: {error.strerror}") from None


def _read_list(value: Any, top: str, remote: Remote) -> List[Tuple[str, bool, int, int]]:
    """Return (place, executable, bytes, time in ns) of each file that the other side lists.

    Raises UsageError for a name that leads elsewhere, or into a repository, whose files git runs.
    """
    files = []
    try:
        for name, executable, size, changed in value:  # name: "" if ``top`` is a file
            if name and (not is_safe(name) or ".git" in name.lower().split("/")):
                raise UsageError(f"{remote.name} sends a name that leads elsewhere: {name!r}")
            place = os.path.join(top, name) if name else top
            files.append((place, bool(executable), max(0, int(size)), int(changed)))
    except (AttributeError, TypeError, ValueError):
        raise UsageError(f"{remote.name} sends a list of files that cannot be read") from None
    return files


def _check_way(place: str) -> None:
    """Refuse a path through a link that leaves the current directory."""
    here = os.path.realpath(os.getcwd())
    parent = os.path.realpath(os.path.dirname(place) or ".")
    if os.path.commonpath([here, parent]) != here:
        raise UsageError(f"{printable(place)} leads out of this directory through a link")
