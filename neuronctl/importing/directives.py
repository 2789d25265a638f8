"""The ``#SBATCH`` lines of a script as the keys of a job file."""

from __future__ import annotations

import re
from typing import Collection, Dict, List

from neuronctl.catalog.model import Cluster
from neuronctl.common import units
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.words import counted
from neuronctl.common.yamlfile.writer import Entry
from neuronctl.planning import JobPlan
from neuronctl.request.job import BY_NAME, OF_SLURM, OPTIONS, JobRequest
from neuronctl.rules.consistency import OTHER_WORDS
from neuronctl.scripts.as_request import GPU_OPTIONS, as_request
from neuronctl.scripts.header import read_header
from neuronctl.scripts.model import AFTER_COMMAND, CUT, MISSPELLED, REMARK, Header


@dataclass(frozen=True)
class Remark:
    """What the job file does not say as the script does.

    line: 0 for the whole script. differs: whether the job does, for every program.
    """

    line: int
    message: str
    hint: str = ""
    differs: bool = True


_KEYS = (*(name for name in OF_SLURM if name not in ("ntasks", "gpus")), "sbatch")

# Options that set the same value: for the line of a remark.
_TYPED = {
    "nodes": ("nodes", "ntasks"),
    "ntasks-per-node": ("ntasks-per-node", "ntasks"),
    "cpus-per-task": ("cpus-per-task", "cpus-per-gpu"),
    "gpus-per-node": ("gpus-per-node", "gres", "gpus", "gpus-per-task"),
    "requeue": ("requeue", "no-requeue"),
}

_ONLY_ON_SUBMISSION = {
    "wait": "type 'neuronctl submit --wait'",
    "parsable": "type 'neuronctl submit --json'",
    "test-only": "type 'neuronctl submit --dry-run'",
}


class Directives:
    """What the header comes to.

    wanted: the request that the job file has to make. remarks: what it cannot say.
    """

    def __init__(self, header: Header, name: str, cluster: Cluster, late: Collection[int]) -> None:
        """late: the lines of directives behind the first command; others are data of a command."""
        self.header = header
        self.late = late
        self.remarks: List[Remark] = []
        self.wanted = self._with_defaults(as_request(header, name, cluster), name)
        self._told()
        self.values = self._values()

    def line(self, key: str) -> int:
        """The line of the option that determines a key, 0 where none does."""
        found = [
            self.header.options[name].place.line
            for name in _TYPED.get(key, (key,))
            if name in self.header.options
        ]
        return found[0] if found else 0

    def entries(self, *, by_task: bool, by_srun: bool) -> List[Entry]:
        """The keys of the job file.

        by_task: whether a launcher starts as many processes as there are tasks. by_srun: whether
        one has to know the cores of a task.
        """
        remarks = {
            ignored.place.line: ignored.text[1:].strip()
            for ignored in self.header.ignored
            if ignored.reason == REMARK
        }
        values = dict(self.values)
        if self.line("ntasks-per-node") or (by_task and self.wanted.gpus_per_node):
            values.setdefault("ntasks-per-node", str(self.wanted.ntasks_per_node))
        if by_srun and self.wanted.cpus_per_task == 0:
            del values["cpus-per-task"]  # one, as in Slurm: there are no GPUs
        made = []
        for key in _KEYS:
            if key in values:
                made.append(Entry(key, values[key], remark=remarks.pop(self.line(key), "")))
        # The rest of a line's remark stands above everything.
        left = tuple(remarks.values())
        return [replace(entry, above=left) for entry in made[:1]] + made[1:]

    def _with_defaults(self, request: JobRequest, name: str) -> JobRequest:
        """With what sbatch takes where the script says nothing, and neuronctl takes another."""
        base = "sbatch" if name == "<stdin>" else re.sub(r".*/", "", name)
        changes: Dict[str, object] = {}
        if request.job_name is None:
            changes["job_name"] = base
        if request.output is None:
            changes["output"] = "slurm-%A_%a.out" if request.array else "slurm-%j.out"
        dropped = [*OTHER_WORDS, *_ONLY_ON_SUBMISSION]
        if not self.line("cpus-per-task"):
            changes["cpus_per_task"] = 0  # the partition may have a default for GPUs
        changes["sbatch"] = tuple(
            option for option in request.sbatch if option.partition("=")[0] not in dropped
        )
        return replace(request, **changes)  # type: ignore[arg-type]

    def _told(self) -> None:
        """Remarks on what no job file can say."""
        options, add = self.header.options, self._add
        for ignored in self.header.ignored:
            too_late = ignored.reason == AFTER_COMMAND and ignored.place.line in self.late
            if too_late or ignored.reason in (MISSPELLED, CUT):
                what = ignored.text if len(ignored.text) < 60 else f"{ignored.text[:57]}…"
                self.remarks.append(
                    Remark(
                        ignored.place.line,
                        f"'{what}' has no effect ({ignored.reason}): not carried over",
                    )
                )
        if (self.header.value("gres") or "").startswith("gres:"):
            what = "Slurm 24.11 refuses 'gres:' before a resource: not carried over"
            self.remarks.append(Remark(options["gres"].place.line, what))
        for place in self.header.foreign:
            what = "a line for another scheduler, which Slurm translates, is not carried over"
            self.remarks.append(Remark(place.line, what, "write it as #SBATCH"))
        carried = {"no-requeue", *(["cpus-per-gpu"] if self.wanted.gpus_per_node else [])}
        for name, hint in {**OTHER_WORDS, **_ONLY_ON_SUBMISSION}.items():
            if name in options and name not in carried:
                said = f"{options[name].text}: a job file cannot say this"
                if name == "gpus-per-task" and self.wanted.gpus_per_node:
                    gpus = counted(self.wanted.gpus_per_node, "GPU")
                    said += f"; it requests {gpus} per node, and each task sees all of them"
                add(name, said, hint)
        per_node: List[str] = []
        typed: Dict[str, bool] = {}
        for name in GPU_OPTIONS:
            if name in options:
                try:
                    read = OF_SLURM[name].parse([options[name].value or ""])
                    if "gpus_per_node" in read:
                        per_node.append(options[name].text)
                    if "gpus" in read or "gpus_per_node" in read:
                        typed[name] = "gpu_type" in read
                except ValueError as error:
                    add(name, f"{options[name].text} is not carried over: {error}")
        if len(set(typed.values())) > 1:
            two = " and ".join(options[name].text for name in typed)
            add([*typed][-1], f"{two}: Slurm refuses GPUs with a type beside GPUs without one")
        if len(per_node) > 1:
            add(
                "gpus-per-node",
                f"{per_node[0]}: the job file takes {per_node[1]}, which wins in Slurm",
            )
        self._told_of_sizes()

    def _told_of_sizes(self) -> None:
        """Remarks where Slurm may choose what a job file says: how many on how many nodes."""
        options, add = self.header.options, self._add
        left = not {"nodes", "nodelist"} & options.keys()  # the number of nodes is Slurm's choice
        tasks = int(options["ntasks"].value or 1) if "ntasks" in options else None
        if tasks is not None and self.wanted.max_nodes is not None:
            self.wanted = replace(self.wanted, max_nodes=None)
        nodes = self.wanted.nodes or 1
        each = counted(self.wanted.ntasks_per_node or 1, "task")
        gpus = self.wanted.gpus_per_node or 0
        on = f"the job file requests {counted(nodes, 'node')}"
        if tasks is not None and "-" in (self.header.value("nodes") or ""):
            text = f"{options['nodes'].text} with --ntasks={tasks}: {on}"
            add("nodes", text, "with a range, request --ntasks-per-node")
        elif tasks is not None and left and tasks > 1:
            text = f"--ntasks={tasks} without --nodes: Slurm may spread the tasks; {on}"
            add("ntasks", text, "change nodes and ntasks-per-node")
        made = nodes * (self.wanted.ntasks_per_node or 1)
        if tasks is not None and tasks != made and "nodelist" not in options:
            text = f"--ntasks={tasks}: {on} with {each} on each"
            add("ntasks", text, "request a multiple of the nodes")
        if "spread-job" in options and left:
            add("spread-job", f"--spread-job without --nodes: {on}", "request more nodes")
        total = self.header.count("gpus")
        if total is None:
            return
        if self.wanted.max_nodes or (left and total > 1) or total != nodes * gpus:
            text = f"{options['gpus'].text}: {on} with {counted(gpus, 'GPU')} on each"
            add("gpus", text, "request GPUs per node: --gpus-per-node")

    def _add(self, name: str, message: str, hint: str = "") -> None:
        self.remarks.append(Remark(self.header.options[name].place.line, message, hint))

    def _values(self) -> Dict[str, object]:
        values: Dict[str, object] = {}
        for key, given in self._texts().items():
            kept = [text for text in given if self._can_stand(key, text)]
            if kept:
                kind = BY_NAME[key].kind
                one = kept[0] == "true" if kind in ("flag", "switch") else kept[0]
                values[key] = kept if kind == "list" else one
        return values

    def _can_stand(self, key: str, text: str) -> bool:
        """Whether a job file can have this; otherwise, it is told."""
        shown = text.partition("=")[0] if key == "sbatch" else key
        line = self.line(shown)
        try:
            BY_NAME[key].parse([text])
        except ValueError as error:
            self.remarks.append(Remark(line, f"--{shown} is not carried over: {error}"))
            return False
        return True

    def _texts(self) -> Dict[str, List[str]]:
        """Key -> the texts of its value: of most keys, one."""
        request = self.wanted
        found: Dict[str, List[str]] = {}
        for key in _KEYS:
            value = getattr(request, BY_NAME[key].field)
            if isinstance(value, bool):
                found[key] = ["true" if value else "false"]
            elif isinstance(value, int):
                if value > 1 or key in ("gpus-per-node", "cpus-per-task"):
                    found[key] = [str(value)]
            elif isinstance(value, str):
                found[key] = [value]
        if request.max_nodes is not None:
            found["nodes"] = [f"{request.nodes}-{request.max_nodes}"]
        gpus = found.pop("gpus-per-node", None)
        others = list(request.gres)
        if gpus is not None:
            amount = f"{request.gpu_type}:{gpus[0]}" if request.gpu_type else gpus[0]
            if "gpus-per-node" in self.header.options or "gres" not in self.header.options:
                found["gpus-per-node"] = [amount]
            else:
                others.insert(0, f"gpu:{amount}")
        if others:
            found["gres"] = [",".join(others)]
        if request.sbatch:
            found["sbatch"] = list(request.sbatch)
        return found


_COMPARED = (*(BY_NAME[key].field for key in _KEYS if key != "chdir"), "max_nodes", "gpu_type")


def differences(directives: Directives, plan: JobPlan) -> List[Remark]:
    """Where the script that is made of the job file asks Slurm for something else."""
    made = read_header(
        "#!/bin/bash\n", command_line=[f"--{option}" for option in plan.salloc_options]
    )
    ours = as_request(made, "", plan.cluster)
    found = []
    for field in _COMPARED:
        before = _plain(field, getattr(directives.wanted, field))
        after = _plain(field, getattr(ours, field))
        if before == after:
            continue
        key = next(
            (option.long for option in OPTIONS if option.field == field), field.replace("_", "-")
        )
        if field == "sbatch":
            wanted, made_of_it = set(directives.wanted.sbatch), set(ours.sbatch)
            for option in sorted(made_of_it - wanted):
                found.append(Remark(0, f"'neuronctl generate' adds --{option}"))
            for option in sorted(wanted - made_of_it):
                found.append(Remark(0, f"--{option} is not in what 'neuronctl generate' makes"))
        elif not before:
            found.append(Remark(0, f"no --{key} in the script; 'neuronctl generate' adds {after}"))
        else:
            text = f"--{key}={before}: 'neuronctl generate' makes it {after or 'nothing'}"
            found.append(Remark(directives.line(key), text))
    told = {remark.line for remark in directives.remarks}
    return [
        difference for difference in found if difference.line == 0 or difference.line not in told
    ]


def _plain(field: str, value: object) -> object:
    if field == "time_limit" and isinstance(value, str):
        seconds = units.parse_time(value)
        return "UNLIMITED" if seconds == units.UNLIMITED else units.format_time(seconds)
    return value or (1 if field in ("nodes", "cpus_per_task") else None)
