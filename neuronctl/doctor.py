"""What works here and what does not, for one page: looks, and changes nothing."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Tuple

from neuronctl import __version__
from neuronctl.errors import NeuronctlError
from neuronctl.frozen import dataclass

GOOD = "ok"
BAD = "wrong"
ABSENT = "not here"

_COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sacct", "sacctmgr", "salloc", "srun")
_TIMEOUT = 5.0
_OLD = 365 * 86400


@dataclass(frozen=True)
class Check:
    """One line of the page. state: ``ok``, ``wrong`` or ``not here``; hint: what to do."""

    name: str
    state: str
    words: str
    hint: str = ""


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
            found.append(Check(look.__name__.strip("_<>"), BAD, error.message, error.hint))
    return tuple(found)


def _program() -> Iterator[Check]:
    python = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("neuronctl", GOOD, f"{__version__} on Python {python}")


def _commands() -> Iterator[Check]:
    missing = [one for one in _COMMANDS if shutil.which(one) is None]
    if len(missing) == len(_COMMANDS):
        hint = "log in to the cluster's login node; 'neuronctl generate' works without"
        yield Check("slurm commands", ABSENT, "none on PATH", hint)
    elif missing:
        yield Check("slurm commands", BAD, f"not on PATH: {', '.join(missing)}")
    else:
        yield Check("slurm commands", GOOD, os.path.dirname(shutil.which("sbatch") or ""))


def _slurm() -> Iterator[Check]:
    from neuronctl import slurm
    from neuronctl.situation import user_name

    if not slurm.installed():
        return
    begun = time.monotonic()
    try:
        limits = slurm.ask_now(limits_of=(user_name(), ""), timeout=_TIMEOUT).limits
    except NeuronctlError as error:
        yield Check("slurm", BAD, "; ".join(error.message.splitlines()), error.hint)
        return
    assert limits is not None
    spent = int((time.monotonic() - begun) * 1000)
    config = limits.config
    words = f"{config.version}, cluster {config.cluster}, answered in {spent} ms; "
    words += f"{len(limits.partitions)} partitions, {len(limits.nodes)} nodes"
    yield Check("slurm", GOOD, words)
    if limits.qos is None:
        words = "sacctmgr does not answer: limits of users and how old jobs ended are not known"
        yield Check("accounting", ABSENT, words)
    else:
        accounts = ", ".join(dict.fromkeys(one.account for one in limits.associations))
        enforced = ", ".join(config.enforce) or "nothing"
        yield Check("accounting", GOOD, f"your accounts: {accounts or 'none'}; holds to {enforced}")


def _catalog(file: Optional[str]) -> Iterator[Check]:
    from neuronctl.catalog.loader import load
    from neuronctl.catalog.recognise import recognise

    try:
        known = load(file)
    except NeuronctlError as error:
        yield Check("catalog", BAD, error.message, error.hint)
        return
    yield Check("catalog", GOOD, " under ".join(known.files))
    cluster, how = recognise(known)
    age = _age(cluster.date)
    words = f"{cluster.name}, by {how}; {cluster.source}, {cluster.date}"
    if age is not None and age > _OLD:
        hint = "'neuronctl catalog diff' compares it with Slurm"
        yield Check("cluster", BAD, f"{words}: {age // 86400} days old", hint)
    else:
        yield Check("cluster", GOOD, words)
    from neuronctl.situation import user_name

    places = [one.replace("{user}", user_name()) for one in cluster.policy.submit_from]
    for place in places:
        if os.path.isdir(place):
            yield Check("submit from", GOOD, place)
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
    config = config_dir() / "config.yaml"
    if config.exists():
        from neuronctl.jobfile import read_config

        try:
            count = len(read_config(config).values)
        except NeuronctlError as error:
            yield Check("configuration", BAD, error.message, error.hint)
            return
        yield Check("configuration", GOOD, f"{config}, {count} defaults")
    else:
        yield Check("configuration", ABSENT, f"{config}")


def _writable(name: str, path: Path) -> Check:
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    if not os.access(there, os.W_OK | os.X_OK) or not there.is_dir():
        return Check(name, BAD, f"{there} is not a directory you can write in")
    free = shutil.disk_usage(there).free >> 20
    if free < 10:
        return Check(name, BAD, f"{path}: {free} MB are free there", "make room")
    if path.exists() and path.stat().st_mode & 0o077:
        hint = f"chmod 700 {path}"
        return Check(name, BAD, f"{path} can be read by others", hint)
    return Check(name, GOOD, f"{path}{'' if path.exists() else ', made when it is needed'}")


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
    from neuronctl.records import RecordStore

    store = RecordStore.default()
    newest = store.recent(1)
    for warning in store.warnings:
        yield Check("records", BAD, warning)
    if not newest:
        yield Check("last job", ABSENT, "none is recorded")
        return
    record = newest[0]
    words = f"{record.job_id} ({record.draft.job_name}) in {record.draft.partition}"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.begun_at))
    yield Check("last job", GOOD, f"{words}, submitted {when}", f"neuronctl status {record.job_id}")
