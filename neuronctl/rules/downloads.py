"""NC241: what a job would fetch from the internet, where its nodes have none."""

from __future__ import annotations

import re
from typing import Iterator, List, Sequence

from neuronctl.common.rule_codes import WARNING
from neuronctl.common.shell import join
from neuronctl.common.words import counted
from neuronctl.planning import JobPlan
from neuronctl.request.job import StepRequest
from neuronctl.rules.base import RuleContext, Violation, rule

_NAMES = re.compile(r"\b(wget|curl|git|pip3?|conda|mamba|huggingface-cli|hf|wandb|gdown|kaggle)\b")
_URL = re.compile(
    r"(?:https?|ftp|ssh|git)://(?:\w+@)?[A-Za-z][\w-]*(?:\.[\w-]+)*\.[a-z]{2,}\b|git@"
)
"""One that is no address of the job's own."""


def _fetches(words: Sequence[str]) -> bool:
    """Return True if a command needs the internet, as far as its words show."""
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
        of_files = all(re.match(r"[./]|.*\.(whl|tar\.gz)$", word) for word in plain[1:])
        return first in ("install", "download") and "--no-index" not in rest and not of_files
    if name in ("conda", "mamba"):
        return first in ("install", "create", "update") and "--offline" not in rest
    if name == "wandb":
        return first in ("online", "sync", "login")
    return name == "gdown" or (name in ("huggingface-cli", "hf", "kaggle") and "download" in plain)


@rule(WARNING, "NC241", "download where nodes have no internet")
def no_internet(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    text = "\n".join(filter(_NAMES.search, _texts(plan)))
    names = " ".join((*dict(request.env), *context.local.variables))
    proxy = re.search(r"(?i)\b(https?|all)_proxy\b", f"{text} {names}")
    if plan.partition.internet is not False or not text or proxy:
        return
    from neuronctl.scripts.launches import launches
    from neuronctl.scripts.shell_reader import read_shell

    started = launches(read_shell(text).commands)
    every = [each.texts for launch in started for each in (launch, *launch.below())]
    found = [join(words) for words in every if words and _fetches(words)]
    if found:
        more = f", and {counted(len(found) - 1, 'other command')}" if len(found) > 1 else ""
        hint = "fetch it here, before you submit the job"
        if found[0].startswith("wandb"):
            hint = "run 'wandb offline' in the job, and 'wandb sync' here once it has ended"
        cluster, own = plan.cluster.name, ("partitions", plan.partition.name, "internet")
        path = own if context.catalog.has(cluster, *own) else ("internet",)
        message = f"nodes of {plan.partition.name} have no internet, and this needs it: "
        message += f"{found[0][:80]}{more}"
        yield Violation(message, hint, context.catalog.cite(cluster, *path))


def _texts(plan: JobPlan) -> Iterator[str]:
    """Yield what the job starts, as shell text."""
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
