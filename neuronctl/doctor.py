"""Check what works on this machine and what does not, without changing anything."""

from __future__ import annotations

import glob
import os
import shutil
import sys
import time
from typing import Callable, Dict, Iterator, List, Optional, Tuple, Type

from neuronctl.catalog.loader import load, recognize_cluster
from neuronctl.common import errors, yamlfile
from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import NeuronctlError, RecordError
from neuronctl.common.paths import cache_dir, defaults_file, state_dir
from neuronctl.common.words import counted
from neuronctl.diagnosis import knowledge
from neuronctl.judgement.ask import Question
from neuronctl.launch import launchers
from neuronctl.records.store import RecordStore
from neuronctl.rendering import template_environment
from neuronctl.request.job_file import configuration, configured_cluster, read_config
from neuronctl.rules.quotas import quotas_of_user
from neuronctl.serving import recipes
from neuronctl.slurm.process import installed, where_slurm_is
from neuronctl.version import __version__

GOOD = "ok"
BAD = "wrong"
ABSENT = "not here"

_NEEDED = ("sbatch", "squeue", "scancel", "scontrol", "salloc", "srun")
_OPTIONAL = {
    "sacct": "how jobs ended is unknown once slurmctld forgets them",
    "sacctmgr": "the limits of QOSs and of your account are unknown",
}
"""Commands of Slurm that neuronctl can do without, and what is then unknown."""

_TIMEOUT = 5.0  # seconds for Slurm to answer


@dataclass(frozen=True)
class Check:
    """One line of the report.

    name: what is checked. state: GOOD, BAD, or ABSENT. words: what was found. hint: what to do, or
    "". exit_code: that of doctor for this problem; 0 unless the state is BAD.
    """

    name: str
    state: str
    words: str
    hint: str = ""
    exit_code: int = 0


def _wrong(name: str, words: str, hint: str, kind: Type[NeuronctlError]) -> Check:
    return Check(name, BAD, words, hint, kind.exit_code)


def examine(catalog_file: Optional[str] = None) -> Tuple[Check, ...]:
    """Run all checks; a check that fails becomes a line of the report, never an error."""
    probes: Dict[str, Callable[[], Iterator[Check]]] = {
        "neuronctl": _program,
        "slurm commands": _commands,
        "slurm": _slurm,
        "catalog": lambda: _catalog(catalog_file),
        "cluster": lambda: _cluster(catalog_file),
        "directories": _directories,
        "quota": lambda: _quotas(catalog_file),
        "configuration": _configuration,
        "site": _site_files,
        "records": _records,
    }
    checks: List[Check] = []
    for name, probe in probes.items():
        try:
            checks += probe()
        except NeuronctlError as error:
            words = "; ".join(error.message.splitlines())
            checks.append(Check(name, BAD, words, error.hint, error.exit_code))
    return tuple(checks)


def _program() -> Iterator[Check]:
    python = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("neuronctl", GOOD, f"{__version__} on Python {python}")


def _commands() -> Iterator[Check]:
    name = "slurm commands"
    paths = {command: shutil.which(command) for command in (*_NEEDED, *_OPTIONAL)}
    missing = [command for command in _NEEDED if paths[command] is None]
    if not any(paths.values()):
        yield Check(name, ABSENT, "none on PATH", where_slurm_is())
        return
    if missing:
        words = f"not on PATH: {', '.join(missing)}"
        yield _wrong(name, words, "add Slurm's directory to PATH", errors.SlurmUnavailableError)
    else:
        yield Check(name, GOOD, ", ".join(path for path in paths.values() if path is not None))
    for command, consequence in _OPTIONAL.items():
        if paths[command] is None:
            yield Check(command, ABSENT, f"not on PATH: {consequence}")


def _slurm() -> Iterator[Check]:
    if not installed():
        return
    start = time.monotonic()
    figures = Question(timeout=_TIMEOUT).answer().figures
    delay = int((time.monotonic() - start) * 1000)
    config = figures.config
    answer = f"{config.version}, cluster {config.cluster}, answered in {delay} ms"
    nodes = counted(sum(len(group.names) for group in figures.nodes), "node")
    partitions = counted(len(figures.partitions), "partition")
    yield Check("slurm", GOOD, f"{answer}; {partitions}, {nodes}")
    if figures.qos is None:
        hint = "'sacctmgr show qos' shows why"
        yield Check("accounting", ABSENT, _OPTIONAL["sacctmgr"], hint)
    else:
        accounts = ", ".join(dict.fromkeys(row.account for row in figures.associations))
        enforced = ", ".join(config.enforce) or "nothing"
        yield Check("accounting", GOOD, f"your accounts: {accounts or 'none'}; enforces {enforced}")


def _catalog(file: Optional[str]) -> Iterator[Check]:
    yield Check("catalog", GOOD, ", overridden by ".join(load(file).files))


def _cluster(file: Optional[str]) -> Iterator[Check]:
    cluster, how = recognize_cluster(load(file), configured_cluster())
    words = f"{cluster.name}, from {how or 'your configuration'}; {cluster.source}, {cluster.date}"
    yield Check("cluster", GOOD, words, "'neuronctl catalog import' prints what Slurm says")


def _directories() -> Iterator[Check]:
    yield _check_directory("records", state_dir())
    yield _check_directory("cache", cache_dir())


def _quotas(file: Optional[str]) -> Iterator[Check]:
    for quota in quotas_of_user(recognize_cluster(load(file), configured_cluster())[0]):
        words = f"{quota.words}: {', '.join(quota.holds)}"
        if quota.is_low:
            yield _wrong("quota", words, "free some space there", RecordError)
        else:
            yield Check("quota", GOOD, words)


def _configuration() -> Iterator[Check]:
    count = counted(len(configuration().values), "default")
    exists = os.path.exists(defaults_file())
    yield Check("configuration", GOOD if exists else ABSENT, f"{defaults_file()}, {count}")


def _site_files() -> Iterator[Check]:
    templates = os.path.join(launchers.SITE_DIRECTORY, "*", "*")
    for file in [*glob.glob(knowledge.SITE_FILE), *sorted(glob.glob(templates))]:
        yield Check("site", GOOD, f"{file}: {check_file(file)}")


def check_file(file: str) -> str:
    """Return what a site's file holds, according to its path; raise a NeuronctlError if wrong.

    A missing file counts as a catalog: load() raises the error that names it.
    """
    place, name = os.path.split(os.path.abspath(file))
    if name == "config.yaml" and os.path.exists(file):
        read_config(file)
        return "defaults"
    if name == "causes.yaml":
        knowledge.read_entries(yamlfile.read(file, errors.CatalogError))
        return "causes"
    if os.path.basename(place) == "recipes":
        recipes.read(name.rpartition(".")[0], file, own=True)
        return "a recipe"
    if name.endswith(".j2") and os.path.exists(file):
        launchers.read(name[: -len(".j2")], (place, *launchers.directories()))
        with template_environment.report_errors(file, template_environment.directories()):
            templates = template_environment.launcher_templates()
            templates.get_template(template_environment.name_of(file))
        return "a launcher"
    load(file)
    return "a catalog"


def _check_directory(name: str, path: str) -> Check:
    """Check that a private directory can be used; if it is missing, that it can be created."""
    nearest = path  # the nearest directory that exists
    while not os.path.exists(nearest) and nearest != os.path.dirname(nearest):
        nearest = os.path.dirname(nearest)
    if not os.access(nearest, os.W_OK | os.X_OK) or not os.path.isdir(nearest):
        hint = "change its permissions, or set XDG_STATE_HOME and XDG_CACHE_HOME"
        return _wrong(name, f"{nearest} is not a writable directory", hint, RecordError)
    if nearest != path:
        return Check(name, GOOD, f"{path}, created when needed")
    if os.stat(path).st_mode & 0o077:
        hint = f"chmod 700 {path}"
        return _wrong(name, f"other users can access {path}", hint, RecordError)
    return Check(name, GOOD, path)


def _records() -> Iterator[Check]:
    store = RecordStore.default()
    store.recent(1)
    for warning in store.warnings:
        yield _wrong("records", warning, "", RecordError)
