"""What works here and what does not, for one page: looks, and changes nothing."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Callable, Dict, Iterator, List, Optional, Tuple, Type

from neuronctl.errors import (
    NeuronctlError,
    PolicyError,
    RecordError,
    SlurmUnavailableError,
)
from neuronctl.frozen import dataclass
from neuronctl.version import __version__

GOOD = "ok"
BAD = "wrong"
ABSENT = "not here"

_NEEDED = ("sbatch", "squeue", "scancel", "scontrol", "salloc", "srun")
_WITHOUT = {
    "sacct": "how old jobs ended is not known once Slurm forgets them",
    "sacctmgr": "the limits of a QOS and of your account are not known",
}
_TIMEOUT = 5.0
_OLD = 365 * 86400


@dataclass(frozen=True)
class Check:
    """One line of the page. state: ``ok``, ``wrong`` or ``not here``; hint: what to do.

    exit_code: of what goes wrong with it, where the state is ``wrong``; else 0.
    """

    name: str
    state: str
    words: str
    hint: str = ""
    exit_code: int = 0


def _wrong(name: str, words: str, hint: str, kind: Type[NeuronctlError]) -> Check:
    return Check(name, BAD, words, hint, kind.exit_code)


def _failed(name: str, error: NeuronctlError) -> Check:
    return Check(name, BAD, "; ".join(error.message.splitlines()), error.hint, error.exit_code)


def examine(catalog_file: Optional[str] = None) -> Tuple[Check, ...]:
    """Look at everything; a look that fails is a line of its own, never an error."""
    looks: Tuple[Callable[[], Iterator[Check]], ...] = (
        _program,
        _commands,
        _slurm,
        lambda: _catalog(catalog_file),
        _directories,
        _software,
        _last_job,
    )
    found: List[Check] = []
    for look in looks:
        try:
            found += look()
        except NeuronctlError as error:
            found.append(_failed(look.__name__.strip("_<>"), error))
    return tuple(found)


def _program() -> Iterator[Check]:
    python = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("neuronctl", GOOD, f"{__version__} on Python {python}")


def _commands() -> Iterator[Check]:
    name = "slurm commands"
    there = {one: shutil.which(one) for one in (*_NEEDED, *_WITHOUT)}
    missing = [one for one in _NEEDED if there[one] is None]
    if not any(there.values()):
        hint = "log in to the cluster's login node; 'neuronctl generate' works without"
        yield Check(name, ABSENT, "none on PATH", hint)
        return
    if missing:
        words = f"not on PATH: {', '.join(missing)}"
        yield _wrong(name, words, "put Slurm's directory on PATH", SlurmUnavailableError)
    else:
        yield Check(name, GOOD, _paths([path for path in there.values() if path is not None]))
    for one, words in _WITHOUT.items():
        if there[one] is None:
            yield Check(one, ABSENT, f"not on PATH: {words}")


def _paths(commands: List[str]) -> str:
    """Full paths, a directory once; behind links, where they lead."""
    places: Dict[str, List[str]] = {}
    for path in commands:
        real = os.path.realpath(path)
        leads = f" -> {real}" if os.path.basename(real) != os.path.basename(path) else ""
        whole = path if leads else real
        places.setdefault(os.path.dirname(whole), []).append(os.path.basename(whole) + leads)
    return "; ".join(f"{place}: {', '.join(names)}" for place, names in places.items())


def _slurm() -> Iterator[Check]:
    from neuronctl.slurm.process import installed
    from neuronctl.slurm.snapshot import ask_now
    from neuronctl.users import login_name

    if not installed():
        return
    begun = time.monotonic()
    try:
        limits = ask_now(limits_of=(login_name(), ""), timeout=_TIMEOUT).limits
    except NeuronctlError as error:
        yield _no_answer(error)
        return
    assert limits is not None
    spent = int((time.monotonic() - begun) * 1000)
    config = limits.config
    words = f"{config.version}, cluster {config.cluster}, answered in {spent} ms; "
    words += f"{len(limits.partitions)} partitions, {len(limits.nodes)} nodes"
    yield Check("slurm", GOOD, words)
    if limits.qos is None:
        yield Check("accounting", ABSENT, f"{_WITHOUT['sacctmgr']}: {_silence()}")
    else:
        accounts = ", ".join(dict.fromkeys(one.account for one in limits.associations))
        enforced = ", ".join(config.enforce) or "nothing"
        yield Check("accounting", GOOD, f"your accounts: {accounts or 'none'}; holds to {enforced}")


def _no_answer(error: NeuronctlError) -> Check:
    """What is the matter with Slurm, in plain words where its own are not."""
    from neuronctl.slurm.cluster import config_file

    failed = _failed("slurm", error)
    asked = os.environ.get("SLURM_CONF")
    words, hint = failed.words, failed.hint
    if asked and config_file() is None:
        words = f"$SLURM_CONF names {asked}, which cannot be read"
        hint = "name the cluster's slurm.conf, or unset it"
    elif "munge" in words.lower() or "credential" in words.lower():
        words = f"Slurm does not learn who you are, as munge does not answer here: {words}"
        hint = "tell the site's administrators"
    elif "unable to contact slurm controller" in words.lower():
        words = f"the controller (slurmctld) does not answer: {words}"
    return Check("slurm", BAD, words, hint, failed.exit_code)


def _silence() -> str:
    """Why sacctmgr did not tell the QOS, in its own words."""
    from neuronctl.slurm.process import run

    argv = ["sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=name"]
    try:
        told = run(argv, timeout=_TIMEOUT)
    except NeuronctlError as error:
        return error.message
    if told.returncode:
        said = "; ".join(told.words.splitlines()) or "no words"
        return f"sacctmgr refuses with exit code {told.returncode}: {said}"
    return "sacctmgr names no QOS"


def _catalog(file: Optional[str]) -> Iterator[Check]:
    from neuronctl.catalog.loader import load
    from neuronctl.request.job_file import configured_cluster
    from neuronctl.slurm.cluster import recognise

    try:
        known = load(file)
    except NeuronctlError as error:
        yield _failed("catalog", error)
        return
    yield Check("catalog", GOOD, " under ".join(known.files))
    try:
        asked = configured_cluster()
        cluster, _ = recognise(known, asked)
    except NeuronctlError as error:
        yield _failed("cluster", error)
        return
    here, how = recognise(known)
    own = here is cluster and how.startswith("ClusterName")
    if asked is not None:
        how = f"your configuration, {how}" if own else "your configuration"
    age = _age(cluster.date)
    words = f"{cluster.name}, by {how}; {cluster.source}, {cluster.date}"
    if age is not None and age > _OLD:
        hint = "'neuronctl catalog diff' compares it with Slurm"
        yield Check("cluster", GOOD, f"{words}: {age // 86400} days old", hint)
    else:
        yield Check("cluster", GOOD, words)
    from neuronctl.users import login_name

    places = [one.replace("{user}", login_name()) for one in cluster.policy.submit_from]
    for place in places:
        if os.path.isdir(place):
            yield Check("submit from", GOOD, place)
        elif own:
            words = f"{place} does not exist, and jobs may be submitted from there only"
            yield _wrong("submit from", words, "ask the site to make it", PolicyError)
        else:
            yield Check("submit from", ABSENT, f"{place}, on this machine")


def _age(date: str) -> Optional[int]:
    """Seconds since the end of a day, month or year; None where the date is in no such form."""
    for form in ("%Y-%m-%d", "%Y-%m", "%Y"):
        try:
            return int(time.time() - time.mktime(time.strptime(date, form)))
        except ValueError:
            continue
    return None


def _directories() -> Iterator[Check]:
    from neuronctl.paths import cache_dir, config_dir, state_dir

    for name, path in (("records", state_dir()), ("cache", cache_dir())):
        yield _writable(name, path)
    config = os.path.join(config_dir(), "config.yaml")
    if os.path.exists(config):
        from neuronctl.request.job_file import read_config

        try:
            count = len(read_config(config).values)
        except NeuronctlError as error:
            yield _failed("configuration", error)
            return
        yield Check("configuration", GOOD, f"{config}, {count} defaults")
    else:
        yield Check("configuration", ABSENT, f"{config}")


def _writable(name: str, path: str) -> Check:
    there = path
    while not os.path.exists(there) and there != os.path.dirname(there):
        there = os.path.dirname(there)
    if not os.access(there, os.W_OK | os.X_OK) or not os.path.isdir(there):
        hint = "make it yours, or name another with $XDG_STATE_HOME and $XDG_CACHE_HOME"
        return _wrong(name, f"{there} is not a directory you can write in", hint, RecordError)
    free = shutil.disk_usage(there).free >> 20
    if free < 10:
        return _wrong(name, f"{path}: {free} MB are free there", "make room", RecordError)
    made = os.path.exists(path)
    if made and os.stat(path).st_mode & 0o077:
        hint = f"chmod 700 {path}"
        return _wrong(name, f"{path} can be read by others", hint, RecordError)
    return Check(name, GOOD, f"{path}{'' if made else ', made when it is needed'}")


def _software() -> Iterator[Check]:
    conda = os.environ.get("CONDA_EXE") or shutil.which("conda")
    yield Check("conda", GOOD, conda) if conda else Check("conda", ABSENT, "no conda on PATH")
    module = next(
        (os.environ[one] for one in ("LMOD_CMD", "MODULESHOME") if os.environ.get(one)), None
    )
    yield (
        Check("modules", GOOD, module)
        if module
        else Check("modules", ABSENT, "neither LMOD_CMD nor MODULESHOME is set in this shell")
    )
    runtimes = [shutil.which(one) for one in ("singularity", "apptainer", "enroot")]
    found = [one for one in runtimes if one is not None]
    yield (
        Check("containers", GOOD, ", ".join(found))
        if found
        else Check("containers", ABSENT, "no singularity, apptainer or enroot on PATH")
    )


def _last_job() -> Iterator[Check]:
    from neuronctl.records.store import RecordStore

    store = RecordStore.default()
    newest = store.recent(1)
    for warning in store.warnings:
        yield _wrong("records", warning, "", RecordError)
    if not newest:
        yield Check("last job", ABSENT, "none is recorded")
        return
    record = newest[0]
    words = f"{record.job_id} ({record.job_name}) in {record.partition}"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.begun_at))
    yield Check("last job", GOOD, f"{words}, submitted {when}", f"neuronctl status {record.job_id}")
