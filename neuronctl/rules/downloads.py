"""NC241: what a job would fetch from the internet, where its nodes have none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Iterator, List, Optional, Sequence

from neuronctl.catalog.model import Catalog, Citation
from neuronctl.common.rule_codes import WARNING
from neuronctl.common.shell import join
from neuronctl.common.words import counted
from neuronctl.planning import JobPlan
from neuronctl.request.job import StepRequest
from neuronctl.rules.base import RuleContext, Violation, rule

if TYPE_CHECKING:
    from neuronctl.scripts.launches import Launch

_NAMES = re.compile(r"\b(wget|curl|git|pip3?|conda|mamba|huggingface-cli|hf|wandb|gdown|kaggle)\b")
"""What is worth reading as shell text."""

_URL = re.compile(
    r"(?:https?|ftp|ssh|git)://(?:\w+@)?[A-Za-z][\w-]*(?:\.[\w-]+)*\.[a-z]{2,}\b|git@"
)
"""One that is no address of the job's own."""

_PROXY = re.compile(r"(?i)\b(https?|all)_proxy\b")


def _fetches(words: Sequence[str]) -> bool:
    """Whether a command needs the internet, as far as its words show."""
    name, rest = words[0].rpartition("/")[2], list(words[1:])
    if re.fullmatch(r"python[\d.]*", name) and rest[:2] == ["-m", "pip"]:
        name, rest = "pip", rest[2:]
    plain = [word for word in rest if not word.startswith("-")]
    first = plain[0] if plain else ""
    if name in ("wget", "curl"):
        return any(map(_URL.match, rest))
    if name == "git":
        return first == "clone" and any(map(_URL.match, plain))
    if name in ("pip", "pip3"):
        if first not in ("install", "download") or {"--no-index", "--no-deps"} & set(rest):
            return False
        return any(map(_of_an_index, plain[1:]))
    if name in ("conda", "mamba"):
        return first in ("install", "create", "update") and "--offline" not in rest
    if name == "wandb":
        return first in ("online", "sync", "login")
    return name == "gdown" or (name in ("huggingface-cli", "hf", "kaggle") and "download" in plain)


def _of_an_index(word: str) -> bool:
    """Whether pip looks for it elsewhere than in a directory."""
    return not (word.startswith((".", "/")) or word.endswith((".whl", ".tar.gz")))


def downloads(started: Sequence[Launch]) -> List[Launch]:
    """Those that need the internet, what they start included."""
    found = []
    for launch in started:
        for each in (launch, *launch.below()):
            words = each.texts
            if words and _fetches(words):
                found.append(each)
    return found


def without_internet(
    found: Sequence[str], plan: Optional[JobPlan], catalog: Optional[Catalog] = None
) -> Iterator[Violation]:
    """One violation for all of these commands, where the partition's nodes have no internet."""
    if not found or plan is None or plan.partition.internet is not False:
        return
    more = f", and {counted(len(found) - 1, 'other command')}" if len(found) > 1 else ""
    hint = (
        "run 'wandb offline' in the job, and 'wandb sync' here once it has ended"
        if found[0].startswith("wandb")
        else "fetch it here, before you submit the job"
    )
    where = f"nodes of {plan.partition.name} have no internet"
    cited = Citation("") if catalog is None else _cited(catalog, plan)
    yield Violation(f"{where}, and this needs it: {found[0][:80]}{more}", hint, cited)


def _cited(catalog: Catalog, plan: JobPlan) -> Citation:
    cluster, own = plan.cluster.name, ("partitions", plan.partition.name, "internet")
    return catalog.cite(cluster, *(own if catalog.has(cluster, *own) else ("internet",)))


def has_proxy(text: str) -> bool:
    """Whether a variable of this shell text, or of these names, leads out of the nodes."""
    return _PROXY.search(text) is not None


@rule(WARNING, "NC241", "download where nodes have no internet")
def no_internet(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    if plan.partition.internet is not False:
        return
    text = "\n".join(filter(_NAMES.search, _texts(plan)))
    names = " ".join((*dict(request.env), *context.local.variables))
    if not text or has_proxy(f"{text} {names}"):
        return
    from neuronctl.scripts.launches import launches
    from neuronctl.scripts.shell_reader import read_shell

    found = downloads(launches(read_shell(text).commands))
    words = [join(each.texts) for each in found]
    yield from without_internet(words, plan, context.catalog)


def _texts(plan: JobPlan) -> Iterator[str]:
    """What the job starts, as shell text."""
    request = plan.request
    yield from (*request.setup, request.body or "")
    if request.script is not None:
        yield join([request.script, *request.args])
    steps: List[StepRequest] = list(request.steps)
    for step in steps:
        steps.extend(step.together)
        yield step.body or ""
        if step.script is not None:
            yield join([step.script, *step.args])
