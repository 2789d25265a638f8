"""Copies of code as it was when a job was submitted: one directory for each state of a tree.

What git tracks, and what is new and not ignored, is copied, read-only; what is ignored (data,
outputs, environments), and the logs of jobs, are links to where they are. A state is known by its
digest, and jobs with the same share it. What a job itself writes into one is never removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import time
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from neuronctl.catalog.model import Cluster
from neuronctl.common.errors import RecordError, UsageError
from neuronctl.common.files import head, open_regular, read_private, sha256_of, write_private
from neuronctl.common.frozen import dataclass
from neuronctl.common.paths import cache_dir
from neuronctl.common.users import login_name
from neuronctl.common.words import amount, counted
from neuronctl.slurm.repository import code_of

LARGEST = 500 << 20
"""Bytes that are copied at most."""

_SETTLED = 3600
"""Seconds in which a copy that nobody needs may be that of a job that is just being submitted."""


@dataclass(frozen=True)
class CodeFile:
    """A file of a snapshot. path: in the repository."""

    path: str
    size: int
    sha256: str
    executable: bool


@dataclass(frozen=True)
class CodeSnapshot:
    """The code of a job as it is now, and where its copy is, or would be.

    root: of the repository. below: the job's directory in it, "" for the root. place: the copy's
    directory, in which ``code`` is the tree. links: path -> target, of what is not copied.
    purge_days: after which the site deletes what nobody uses.
    """

    root: str
    below: str
    place: str
    files: Tuple[CodeFile, ...]
    links: Mapping[str, str]
    purge_days: Optional[int] = None

    @property
    def code(self) -> str:
        return os.path.join(self.place, "code")

    def has(self, path: str) -> bool:
        """Whether a path in the repository, "" for its root, is of what is copied."""
        prefix = f"{path}/" if path else ""
        return any(file.path == path or file.path.startswith(prefix) for file in self.files)

    def __str__(self) -> str:
        size = amount(sum(file.size for file in self.files))
        return f"{counted(len(self.files), 'file')}, {size}, in {self.place}"


def places(cluster: Cluster) -> Tuple[str, ...]:
    """Where snapshots are, the first for new ones: scratch where there is one, the cache."""
    scratch = (cluster.scratch or "").replace("{user}", login_name())
    own = os.path.join(cache_dir(), "snapshots")
    if scratch and os.access(scratch, os.W_OK | os.X_OK):
        return os.path.join(scratch, ".neuronctl", "snapshots"), own
    return (own,)


def look(directory: str, cluster: Cluster, logs: Sequence[str] = ()) -> CodeSnapshot:
    """What a snapshot of the code around a directory has; nothing is copied yet.

    logs: how those of the job are named.

    Raises UsageError where there is no repository, a file cannot be read, or it is too much.
    """
    directory = os.path.realpath(directory)
    code = code_of(directory)
    is_log = _log_names(logs)
    of_jobs = {path for path in code.new if is_log(os.path.basename(path))}
    copied = [path for path in code.files if path not in of_jobs]
    sizes = {path: os.lstat(os.path.join(code.root, path)).st_size for path in copied}
    total = sum(sizes.values())
    if total > LARGEST:
        largest = sorted(sizes, key=lambda path: -sizes[path])[:3]
        named = ", ".join(f"{path} ({amount(sizes[path])})" for path in largest)
        raise UsageError(
            f"--snapshot copies at most {amount(LARGEST)}, and {code.root} has {amount(total)} in "
            f"{counted(len(sizes), 'file')}; the largest: {named}",
            "list what is no code in .gitignore: it is then linked, and not copied",
        )
    links = {
        path: os.path.join(code.root, path)
        for path in code.ignored
        if "__pycache__" not in path.split("/") and not path.endswith(".pyc")
    }
    files = []
    for path in copied:
        whole = os.path.join(code.root, path)
        if os.path.islink(whole):
            links[path] = _target(code.root, path)
            continue
        content, executable = _read(whole)
        digest = hashlib.sha256(content).hexdigest()
        files.append(CodeFile(path, len(content), digest, executable))
    names = [[file.path, file.sha256, file.executable] for file in files]
    state = json.dumps([names, sorted(links.items())]).encode("ascii")
    # Each job adds one, and its code is the same.
    links.update((path, os.path.join(code.root, path)) for path in sorted(of_jobs))
    store = places(cluster)[0]
    below = os.path.relpath(directory, code.root)
    return CodeSnapshot(
        root=code.root,
        below="" if below == "." else below,
        place=os.path.join(store, hashlib.sha256(state).hexdigest()[:16]),
        files=tuple(files),
        links=links,
        purge_days=cluster.scratch_days if len(places(cluster)) > 1 else None,
    )


def _log_names(patterns: Sequence[str]) -> Callable[[str], object]:
    """Whether a file is named as the logs of jobs are: by default, or by one of the patterns."""
    names = []
    for pattern in (*patterns, "%x_%j.out", "%x_%j.err", "slurm-%j.out"):
        word = os.path.basename(pattern).replace("%%", "%")
        parts = re.split(r"(%[0-9]*[AabJjNnstux])", word)
        if len(parts) > 1 and not any(part[-1] in "AJj" for part in parts[1::2]):
            continue  # a job's name alone may be that of any file
        names.append(
            "".join(
                _SYMBOL.get(one[-1:], ".+") if number % 2 else re.escape(one)
                for number, one in enumerate(parts)
            )
        )
    stems = {re.sub(r"(\\\.[a-z]+)?$", "", name) for name in names}
    return re.compile(
        rf"(?s)({'|'.join(names)})(\.stacks)?|({'|'.join(sorted(stems))})\.runs"
    ).fullmatch


_SYMBOL = {**dict.fromkeys("Jj", r"\d+(_\d+)?"), **dict.fromkeys("Aabnt", r"\d+")}


def _target(root: str, path: str) -> str:
    """Where a link of the tree leads from its place in a copy: what is copied, it finds there."""
    whole = os.path.join(root, path)
    target = os.path.normpath(os.path.join(os.path.dirname(whole), os.readlink(whole)))
    if target == root or target.startswith(f"{root}/"):
        return os.path.relpath(target, os.path.dirname(whole))
    return target


def _read(path: str) -> Tuple[bytes, bool]:
    """A file's content, and whether it can be run."""
    try:
        with open_regular(path) as file:
            return file.read(), bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
    except OSError as error:
        raise UsageError(
            f"--snapshot cannot read {path}: {error.strerror}",
            "make it readable, or list it in .gitignore: it is then linked, and not copied",
        ) from None


def make(snapshot: CodeSnapshot) -> None:
    """Make the copy, or what is missing of it.

    Raises UsageError where the code has changed since it was looked at, RecordError where the copy
    cannot be written.
    """
    code, stamp = snapshot.code, os.path.join(snapshot.place, "snapshot.json")
    try:
        for file in snapshot.files:
            path = os.path.join(code, file.path)
            if sha256_of(path) == file.sha256:
                continue
            content, _ = _read(os.path.join(snapshot.root, file.path))
            if hashlib.sha256(content).hexdigest() != file.sha256:
                words = f"{file.path} was changed while its snapshot was made"
                raise UsageError(words, "submit again")
            write_private(path, content, mode=0o555 if file.executable else 0o444)
        for name, target in snapshot.links.items():
            path = os.path.join(code, name)
            if not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                with contextlib.suppress(FileExistsError):  # another submission's
                    os.symlink(target, path)
        os.makedirs(os.path.join(code, snapshot.below), mode=0o700, exist_ok=True)
        sums = "".join(_sum(file) for file in snapshot.files)
        write_private(os.path.join(snapshot.place, "sums"), sums.encode("utf-8", "surrogateescape"))
        made = {"root": snapshot.root, "paths": [file.path for file in snapshot.files]}
        write_private(stamp, json.dumps({**made, "links": list(snapshot.links)}))
    except OSError as error:
        raise RecordError(
            f"the snapshot cannot be written to {snapshot.place}: {error.strerror}",
            "free some space there: neuronctl clean",
        ) from None


def damage(place: str) -> str:
    """What of a copy is no longer as it was made, in words; "" where all of it is."""
    code = os.path.join(place, "code")
    try:
        made = json.loads(read_private(os.path.join(place, "snapshot.json")))
        with open(os.path.join(place, "sums"), "rb") as file:
            sums = file.read().decode("utf-8", "surrogateescape")
        paths, links = list(made["paths"]), list(made["links"])
    except (OSError, ValueError, KeyError, TypeError):
        return "it is gone" if not os.path.isdir(code) else "the list of its files is gone"
    known = set(re.findall(".*\n", sums))
    for path in paths:
        whole = os.path.join(code, path)
        if not os.path.lexists(whole):
            return f"{path} is gone"
        if _sum(CodeFile(path, 0, sha256_of(whole), False)) not in known:
            return f"{path} has changed"
    gone = [path for path in links if not os.path.lexists(os.path.join(code, path))]
    return f"{gone[0]} is gone" if gone else ""


def _sum(file: CodeFile) -> str:
    """A line as sha256sum writes it and reads it."""
    name = file.path.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{'' if name == file.path else chr(92)}{file.sha256}  {name}\n"


# -------------------------------------------------------------------------------- those that are


@dataclass(frozen=True)
class KeptSnapshot:
    """A snapshot that is there. root: of what it is a copy. used: when it was last submitted.

    written: what a job has written into it. bytes: with that.
    """

    place: str
    root: str
    used: int
    bytes: int
    written: Tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether it may be that of a job that is just being submitted."""
        return abs(time.time() - self.used) < _SETTLED


def kept_snapshots(stores: Tuple[str, ...]) -> Iterator[KeptSnapshot]:
    """Every snapshot, also one whose making was cut off."""
    for store in stores:
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(store)):
                if re.fullmatch("[0-9a-f]{16}", name):
                    yield _kept(os.path.join(store, name))


def _kept(place: str) -> KeptSnapshot:
    made: Dict[str, object] = {}
    used = int(os.lstat(place).st_mtime)
    with contextlib.suppress(OSError, ValueError):
        stamp = os.path.join(place, "snapshot.json")
        made, used = json.loads(read_private(stamp)), int(os.stat(stamp).st_mtime)
    own: Set[str] = set()
    for key in ("paths", "links"):
        value = made.get(key)
        own.update(value if isinstance(value, list) else ())
    code, size, written = os.path.join(place, "code"), 0, []
    for folder, directories, files in os.walk(code):
        links = [name for name in directories if os.path.islink(os.path.join(folder, name))]
        compiled = os.path.basename(folder) == "__pycache__"
        for name in (*files, *links):
            path = os.path.join(folder, name)
            try:
                status = os.lstat(path)
            except OSError:  # gone meanwhile
                continue
            size += status.st_size
            below = os.path.relpath(path, code)
            # Where a purge took the list of what was copied, that is still read-only.
            copied = (
                below in own if made else stat.S_ISLNK(status.st_mode) or not status.st_mode & 0o200
            )
            if not (copied or compiled):
                written.append(below)
    return KeptSnapshot(place, str(made.get("root", "")), used, size, tuple(sorted(written)))


def remove(kept: KeptSnapshot) -> None:
    """Remove a snapshot. Raises RecordError where it cannot be removed."""
    try:
        shutil.rmtree(kept.place)
    except OSError as error:
        raise RecordError(f"{kept.place} cannot be removed: {error.strerror}") from None


# ---------------------------------------------------------------------- what leads around a copy


def into_the_tree(text: str, snapshot: CodeSnapshot, roots: Tuple[str, ...]) -> Iterator[str]:
    """The absolute paths in a text that lead to what is copied. roots: the names of its root."""
    for root in roots:
        for match in re.finditer(rf"{re.escape(root)}(?![\w.-])(/[^\s'\":;,)}}\]]*)?", text):
            if snapshot.has((match[1] or "").strip("/")):
                yield match[0]


def editable_installs(prefix: str, root: str) -> Dict[str, str]:
    """What is installed in an environment so that Python imports it from below ``root``.

    The package's name -> the directory that Python searches.
    """
    found: Dict[str, str] = {}
    for place in _site_packages(prefix):
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(place)):
                path = os.path.join(place, name)
                if name.endswith((".pth", ".egg-link")):
                    words = _text(path).split("\n")
                    package = re.sub(r"^(__editable__\.)?|(-[0-9].*)?\.(pth|egg-link)$", "", name)
                elif name.endswith(".dist-info"):
                    direct = _text(os.path.join(path, "direct_url.json"))
                    if not re.search(r'"editable":\s*true', direct):
                        continue
                    words = re.findall(r'"url":\s*"file://([^"]*)"', direct)
                    package = name.partition("-")[0]
                else:
                    continue
                for word in map(str.strip, words):
                    real = os.path.realpath(word) if word.startswith("/") else ""
                    if real == root or real.startswith(f"{root}/"):
                        # A .pth names the very directory, the other one that of the project.
                        key = re.sub(r"[-_.]+", "_", package).lower()
                        if key not in found or name.endswith(".pth"):
                            found[key] = real
    return {name: place for name, place in found.items() if name != "easy_install"} or found


def _site_packages(prefix: str) -> List[str]:
    lib = os.path.join(prefix, "lib")
    with contextlib.suppress(OSError):
        names = sorted(name for name in os.listdir(lib) if name.startswith("python3"))
        return [os.path.join(lib, name, "site-packages") for name in names]
    return []


def _text(path: str) -> str:
    return head(path, 64 * 1024).decode("utf-8", "replace")
