"""A job that was planned and judged, kept so that exactly it can be submitted later, once.

A file of the user's own holds what a record would: the request and the script, without secrets; and
what they rest on: the programs, the catalog's figures, and Slurm's limits. Whoever submits it plans
and judges it anew, and compares. To submit it is to rename the file first, so that of two processes
only one does.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from neuronctl.common.errors import (
    NeuronctlError,
    PlanChangedError,
    RecordError,
    SlurmError,
    UsageError,
)
from neuronctl.common.files import read_private, sha256_of, write_private
from neuronctl.common.frozen import asdict, dataclass, replace
from neuronctl.common.masking import MASK
from neuronctl.common.paths import state_dir, working_directory
from neuronctl.common.words import counted, moment
from neuronctl.records.job_record import JobRecord, RecordDraft, decode, encode, without_secrets
from neuronctl.records.recorded import changed_decisions
from neuronctl.request.job import OPTIONS, Source
from neuronctl.slurm.process import installed
from neuronctl.submission import resubmission
from neuronctl.submission.judged_job import JudgedJob
from neuronctl.submission.transaction import Notify

if TYPE_CHECKING:
    from neuronctl.submission.existing_job import ExistingJob
    from neuronctl.submission.planned_job import PlannedJob

MAX_AGE = 3 * 24 * 3600
"""Seconds after which a plan is thrown away."""

_ID = r"[0-9a-f]{12}"
_MOST_CHANGES = 8

Seen = Mapping[str, Any]
"""What a plan rests on, as JSON: ``programs``, ``catalog``, and ``limits`` (None: unknown)."""


@dataclass(frozen=True)
class KeptPlan:
    """A plan as read. template, catalog_file: as they were named, with absolute paths."""

    id: str
    record: JobRecord
    seen: Seen
    template: Optional[str]
    catalog_file: Optional[str]

    @property
    def forced(self) -> bool:
        """Whether it was made with --force."""
        return self.record.draft.forced

    def job(self, tell: Notify) -> Union[ExistingJob, PlannedJob]:
        """The job, planned anew in its own directory, which becomes this process's.

        Raises UsageError where the directory is gone, or a secret variable is not exported.
        """
        draft = self.record.draft
        resubmission.enter_directory(self.record)
        if draft.sbatch:
            from neuronctl.submission.existing_job import existing_job

            options: Dict[str, Any] = {option.long.replace("-", "_"): None for option in OPTIONS}
            options["cluster"] = draft.catalog_cluster
            return existing_job(
                *(draft.sbatch[1:], options),
                tell=tell,
                catalog_file=self.catalog_file,
                recorded=draft.request,
            )
        planned = resubmission.plan_again(
            self.record,
            {},
            variables=resubmission.masked_variables(self.record, {}),
            catalog_file=self.catalog_file,
            submit_dir=draft.submit_dir or self.record.cwd,
            derived={
                name: why
                for name, _, source, why in draft.decisions
                if name in draft.request and source == Source.DERIVED.value
            },
        )
        return replace(planned, template=self.template)

    def check(self, draft: RecordDraft, judged: Optional[JudgedJob]) -> None:
        """Raise PlanChangedError if this is no longer what was planned."""
        then, changes = self.record.draft, []
        if judged is not None:
            changes = _differences(self.seen, _seen(draft, judged))
            known = {row[0] for row in then.findings}
            changes += [found.message for found in judged.errors if found.code not in known]
        if draft.script != then.script or draft.sbatch != then.sbatch:
            values = changed_decisions(then.decisions, draft.decisions)
            changes += [f"{name}: {was or 'none'} -> {now or 'none'}" for name, was, now in values]
            if not changes:
                changes.append("the script is another one: a template or neuronctl has changed")
        if changes:
            more = len(changes) - _MOST_CHANGES
            shown = changes[:_MOST_CHANGES] + ([f"{more} more"] if more > 0 else [])
            raise PlanChangedError(
                f"refused: {counted(len(changes), 'change')} since plan {self.id} was made; "
                f"nothing was submitted\n  " + "\n  ".join(shown),
                "look at the job again: neuronctl submit --dry-run --json …",
            )

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Take the plan for the block, which submits it; it is open again if there is no job."""
        open_, taken = _path(self.id), _path(self.id, "taken")
        try:
            os.rename(open_, taken)
        except OSError:
            raise _gone(self.id) from None
        try:
            yield
        except NeuronctlError as error:
            # As for a record: only then is it certain that there is no job.
            if not isinstance(error, SlurmError) or error.certain or not installed():
                with contextlib.suppress(OSError):
                    os.rename(taken, open_)
            raise

    def submitted(self, job_id: int) -> None:
        """Note which job it has become; one that cannot be noted is taken all the same."""
        with contextlib.suppress(OSError):
            write_private(_path(self.id, "taken"), json.dumps({"job_id": job_id}))


def keep(
    draft: RecordDraft,
    judged: JudgedJob,
    *,
    template: Optional[str] = None,
    catalog_file: Optional[str] = None,
) -> Tuple[str, str]:
    """Keep a judged job: the plan's id, and ``""``; or ``""``, and why it cannot be kept."""
    masked = without_secrets(draft)
    fields = {name: value for name, value in masked.request.items() if name != "env"}
    if (masked.script, masked.sbatch) != (draft.script, draft.sbatch) or MASK in str(fields):
        return "", "it contains a secret: export it, and pass its name with --env"
    id = os.urandom(6).hex()
    record = JobRecord.intent(draft, key=id, begun_at=int(time.time()))
    here = working_directory()
    data = {
        "record": encode(record).decode("ascii"),
        "seen": _seen(draft, judged),
        "template": template and os.path.join(here, template),
        "catalog_file": catalog_file and os.path.join(here, catalog_file),
    }
    try:
        _throw_away_old()
        write_private(_path(id), json.dumps(data))
    except OSError as error:
        return "", f"{_directory()} cannot be written: {error.strerror}"
    return id, ""


def read_plan(id: str) -> KeptPlan:
    """The plan of this id; raises UsageError where there is none any more, RecordError."""
    if not re.fullmatch(_ID, id):
        raise UsageError(f"'{id}' is not the id of a plan", _MAKE_ONE)
    try:
        data = json.loads(read_private(_path(id)))
        record = decode(data["record"].encode("ascii"))
        kept = KeptPlan(id, record, data["seen"], data["template"], data["catalog_file"])
    except FileNotFoundError:
        raise _gone(id) from None
    except OSError as error:
        raise RecordError(f"plan {id} cannot be read: {error.strerror}", _MAKE_ONE) from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise RecordError(f"plan {id} is damaged", _MAKE_ONE) from None
    age = time.time() - record.begun_at
    if age < -MAX_AGE:
        dated = f"plan {id} is dated {moment(record.begun_at)}, in the future"
        raise UsageError(f"{dated}: the clock is or was wrong", _MAKE_ONE)
    if age > MAX_AGE:
        raise UsageError(f"plan {id} is more than {MAX_AGE // 86400} days old", _MAKE_ONE)
    return kept


_MAKE_ONE = "neuronctl submit --dry-run --json … makes one"


def _gone(id: str) -> UsageError:
    """Why a plan is not to be had."""
    try:
        taken = json.loads(read_private(_path(id, "taken")))
    except (OSError, ValueError):
        return UsageError(f"there is no plan {id}", _MAKE_ONE)
    if "job_id" in taken:
        job = taken["job_id"]
        return UsageError(f"plan {id} was submitted already: job {job}", f"neuronctl why {job}")
    return UsageError(
        f"plan {id} is being submitted, or its submission was interrupted",
        "'neuronctl status' shows its job if there is one; if not, make a new plan",
    )


def _directory() -> str:
    return os.path.join(state_dir(), "plans")


def _path(id: str, state: str = "") -> str:
    return os.path.join(_directory(), f"{id}.{state}.json" if state else f"{id}.json")


def _throw_away_old() -> None:
    now = time.time()
    with contextlib.suppress(OSError):
        for name in os.listdir(_directory()):
            path = os.path.join(_directory(), name)
            if re.match(_ID, name) and abs(now - os.lstat(path).st_mtime) > MAX_AGE:
                os.unlink(path)


# ------------------------------------------------------------------------- what it rests on


def _seen(draft: RecordDraft, judged: JudgedJob) -> Seen:
    plan = judged.plan
    names = (draft.partition or plan.partition.name).split(",")
    cluster = replace(plan.cluster, title="", source="", date="", partitions={}, evidence={})
    known = {name: asdict(plan.cluster.partitions[name]) for name in names
             if name in plan.cluster.partitions}  # fmt: skip
    seen = {
        "programs": dict(_programs(draft)),
        "catalog": {**asdict(cluster), "partitions": known},
        "limits": None if judged.limits is None else _limits(judged, names),
    }
    as_json: Seen = json.loads(json.dumps(seen))
    return as_json


def _limits(judged: JudgedJob, names: List[str]) -> Dict[str, Any]:
    """Slurm's limits that hold for the job: of its partitions, QOS, and associations."""
    limits = judged.limits
    assert limits is not None
    partitions = [partition for partition in limits.partitions if partition.name in names]
    usual = {association.default_qos for association in limits.associations} | {
        judged.plan.request.qos or ""
    }
    qos = {name.lower() for name in usual | {partition.qos for partition in partitions}}
    return {
        "config": asdict(limits.config),
        "partition": {partition.name: asdict(partition) for partition in partitions},
        "qos": {
            known.name: _named(asdict(known))
            for known in limits.qos or ()
            if known.name.lower() in qos
        },
        "association": {
            f"{own.account}/{own.partition}": _named(asdict(own)) for own in limits.associations
        },
    }


def _named(holder: Dict[str, Any]) -> Dict[str, Any]:
    """The limits by their names, so that a change of one is said by its name."""
    found = {
        " ".join(filter(None, (limit["kind"], limit["tres"]))): limit["figure"]
        for limit in holder["limits"]
    }
    return {**holder, "limits": found}


def _programs(draft: RecordDraft) -> Iterator[Tuple[str, str]]:
    """The files that the job runs, each with its hash; "" for one that is not there."""
    if draft.sbatch:
        return  # its text is the script
    steps: List[Mapping[str, Any]] = [draft.request]
    while steps:
        step = steps.pop()
        steps += [*step.get("steps", ()), *step.get("together", ())]
        script = step.get("script")
        if script:
            yield script, sha256_of(os.path.join(draft.cwd, script))


def _differences(then: Seen, now: Seen) -> List[str]:
    before, after = then["programs"], now["programs"]
    changes = [
        f"the program {name} has changed" for name in before if after.get(name) != before[name]
    ]
    changes += _compared("the catalog: ", then["catalog"], now["catalog"])
    if then["limits"] is not None:
        if now["limits"] is None:
            changes.append("Slurm's limits cannot be compared: Slurm does not answer")
        else:
            changes += _compared("Slurm: ", then["limits"], now["limits"])
    return changes


def _compared(prefix: str, then: Any, now: Any, path: str = "") -> Iterator[str]:
    """Each figure that differs: ``Slurm: partition.gpu.max_time: 3600 -> 60``."""
    if then == now:
        return
    if isinstance(then, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*then, *now]):
            below = f"{path}.{key}" if path else key
            yield from _compared(prefix, then.get(key), now.get(key), below)
    else:
        was, is_ = ("none" if value is None else value for value in (then, now))
        yield f"{prefix}{path}: {was} -> {is_}"
