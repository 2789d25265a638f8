"""NC2xx: the site's rules: comment, forbidden options, where to submit from, account."""

from __future__ import annotations

import re
from typing import Dict, Iterator, Mapping, Sequence, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR
from neuronctl.rules.base import Finding, RuleContext, Trait, job_rule, nearest

_SHOWN = 6
"""As many values as a person reads in a hint."""


def _comment_form(context: RuleContext) -> str:
    """Return a valid comment to type."""
    policy = context.plan.cluster.policy.comment
    if policy.form == "fields" and context.batch_script:
        return f'--comment="{policy.parts}"'
    if policy.form == "fields":
        return policy.typed
    return f"--comment TEXT that matches {policy.pattern}" if policy.pattern else "--comment WORD"


def _comment_values(context: RuleContext) -> Dict[str, Tuple[str, ...]]:
    """Return the values that each part of the comment takes, as far as the site lists them."""
    policy = context.plan.cluster.policy.comment
    known = policy.fields
    if policy.form == "word":
        known = {"word": policy.values}
    return {key: values for key, values in known.items() if values}


def _choices(context: RuleContext, key: str, values: Tuple[str, ...], word: str = "") -> str:
    """Return the values nearest to ``word``, or some of them, and where all are listed."""
    meanings = context.plan.cluster.policy.comment.meanings
    # Prefer values that contain the word, are contained in it, or mean it.
    low = word.lower().strip()
    related = tuple(
        value for value in values if low and (low in value or (len(value) > 2 and value in low))
    ) or tuple(value for value in values if low and low in meanings.get(value, "").lower())
    best = tuple(dict.fromkeys(related or nearest(word, values)))[:4] if word else ()
    few = len(values) <= _SHOWN
    if best and not few:
        text = f"did you mean {' or '.join(_meant(value, meanings) for value in best)}?"
    else:
        name, near = ("", ()) if few else near_imports(context.local.imports, values)
        shown = ", ".join(_meant(value, meanings) for value in (near or values)[:_SHOWN])
        needed_by = f" (the program imports {name})" if name else ""
        text = f"{key.upper()} {'is one of' if few else 'can be'} {shown}{needed_by}"
    if few:
        return text
    asked = context.plan.request.cluster
    other = f" --cluster {asked}" if asked not in (None, context.catalog.default_cluster) else ""
    sign = "" if text.endswith("?") else ";"
    return f"{text}{sign} 'neuronctl partitions --comment{other}' lists all"


def _joined(hints: Sequence[str]) -> str:
    """Join the hints; say once where all values are listed."""
    return re.sub(
        r"; 'neuronctl partitions --comment[^']*' lists all(?=; .* lists all$)",
        "",
        "; ".join(hints),
    )


def _meant(value: str, meanings: Mapping[str, str]) -> str:
    return f"{value} ({meanings[value]})" if meanings.get(value) else value


def near_imports(imports: Sequence[str], values: Sequence[str]) -> Tuple[str, Tuple[str, ...]]:
    """Return an import of the program and the values named like it, best first."""

    def score(value: str, name: str) -> int:
        parts = re.split("[-_]", value)
        return 2 if name in parts else int(len(name) > 3 and any(name in part for part in parts))

    scores = {value: sum(score(value, name) for name in imports) for value in values}
    near = sorted((value for value in values if scores[value]), key=lambda value: -scores[value])
    names = [name for name in imports if any(score(value, name) for value in near)]
    return "".join(names[:1]), tuple(near)


def _right_comment(context: RuleContext) -> str:
    """Return the one correct comment of a batch script, or "" if that is unclear."""
    policy, given = context.plan.cluster.policy.comment, context.comment_parts
    if not context.batch_script:
        return ""
    if policy.form == "word":
        word = given.get("appl", "")
        return word if not policy.values or word in policy.values else ""
    words = re.split(r"[\s;,&|]+", (context.plan.comment or "").lower())
    known = {key: {one.lower(): one for one in allowed} for key, allowed in policy.fields.items()}
    found: Dict[str, str] = {}
    for key, values in known.items():
        said = {word.removeprefix(f"{key}=") for word in words} & values.keys()
        if key in given:  # a word that may belong to another part is uncertain
            others = {value for name in known.keys() - {key} for value in known[name]}
            sure = {value for value in said if value not in others or f"{key}={value}" in words}
            said = sure or {given[key].lower()} & values.keys()
        right = {values[value] for value in said}
        if len(right) != 1:
            return ""
        found[key] = right.pop()
    if len(given) < len(found) and len([word for word in words if word]) > len(found):
        return ""  # its other content would be lost
    return ";".join(f"{key}={value}" for key, value in found.items())


def _mended(context: RuleContext, found: Finding) -> Finding:
    """Return the finding with the correct comment, if there is one."""
    right = _right_comment(context)
    if not right:
        return found
    return replace(found, hint=f'write --comment="{right}"', instead=("comment", right))


@job_rule(ERROR, "NC201", "comment is mandatory", about="comment")
def comment_given(context: RuleContext) -> Iterator[Finding]:
    plan, policy = context.plan, context.plan.cluster.policy.comment
    if policy.required and not plan.comment:
        known = _comment_values(context).items()
        hint = [f"add {_comment_form(context)}", *(_choices(context, *each) for each in known)]
        found = Finding(
            f"{plan.cluster.name} rejects jobs without a comment",
            _joined(hint),
            context.cite("policy", "comment"),
        )
        yield _mended(context, found)


@job_rule(ERROR, "NC202", "comment is not what the site takes", about="comment")
def comment_form(context: RuleContext) -> Iterator[Finding]:
    return (_mended(context, found) for found in _wrong_comment(context))


def _wrong_comment(context: RuleContext) -> Iterator[Finding]:
    comment, policy = context.plan.comment, context.plan.cluster.policy.comment
    if not comment:
        return
    source, known = context.cite("policy", "comment"), _comment_values(context)
    if policy.pattern and not re.fullmatch(policy.pattern, comment):
        told = context.cite("policy", "comment", "pattern")
        yield Finding(f"comment '{comment}' does not match {policy.pattern}", "", told)
    elif policy.form == "word" and len(comment.split()) != 1:
        yield Finding(
            f"comment '{comment}' is not one word", "--comment takes one word here", source
        )
    elif policy.form == "word" and policy.values and comment not in policy.values:
        words = f"comment '{comment}' is not one that the site allows"
        yield Finding(words, _choices(context, "word", policy.values, comment), source)
    elif policy.form == "fields" and not policy.pattern:
        yield from _wrong_parts(context, comment, known)


def _wrong_parts(
    context: RuleContext, comment: str, known: Mapping[str, Tuple[str, ...]]
) -> Iterator[Finding]:
    """Yield what is wrong with a comment of several parts."""
    policy, source = context.plan.cluster.policy.comment, context.cite("policy", "comment")
    pairs = [part.partition("=") for part in comment.split(";")]
    given = {key: value for key, _, value in pairs}
    keys = [key for key, _, _ in pairs]
    if not all(equals for _, equals, _ in pairs) or re.search(r"[\s,&|]", comment):
        hints = [f"use {_comment_form(context)} instead"]
        said = {key: given.get(key, comment) for key in known}
        hints += [
            _choices(context, key, known[key], said[key])
            for key in known
            if said[key] not in known[key]
        ]
        words = f"comment '{comment}' does not have the form {policy.parts}"
        yield Finding(words, _joined(hints), source)
        return
    for key in given:
        if key not in policy.fields:
            message = f"comment '{comment}' has a key '{key}' that the site does not know"
            yield Finding(message, "keys: " + " ".join(policy.fields), source)
    for key, values in policy.fields.items():
        if key not in given:
            # --comment overrides --field and --appl.
            add = f"add ;{key}={key.upper()} to it, or use {_comment_form(context)} instead"
            alone = context.plan.request.comment is None  # options made it
            add = f"add {policy.part_name(key)}" if alone else add
            hint = f"{add}; {_choices(context, key, values)}"
            yield Finding(f"comment '{comment}' has no {key}=", hint, source)
        elif given[key] not in values:
            message = f"{key}={given[key]} in the comment is not a value that the site allows"
            yield Finding(message, _choices(context, key, values, given[key]), source)
    order = list(policy.fields)
    if keys != order and set(keys) == set(order):
        message = f"comment '{comment}' must have each part once, in the order {policy.parts}"
        yield Finding(message, "write " + ";".join(f"{key}={given[key]}" for key in order), source)


@job_rule(ERROR, "NC211", "option is forbidden by the site", about="")
def forbidden_option(context: RuleContext) -> Iterator[Finding]:
    plan = context.plan
    options = {one.option: one.value for one in plan.directives}
    options.update((f"launcher={launch.launcher.name}", None) for launch in plan.launches)
    for option, value in options.items():
        reason = plan.cluster.policy.forbidden_options.get(option)
        if reason is not None:
            typed = f"--{option}" if value is None else f"--{option}={value}"
            source = context.cite("policy", "forbidden_options", option)
            may_not = "should not be used" if source.doubtful else "is not allowed"
            words = f"{typed} {may_not} on {plan.cluster.name}: {reason}"
            hint = f"leave --{option} out"
            yield Finding(words, hint, source, about=(option,))


@job_rule(ERROR, "NC221", "wrong directory to submit from", Trait.ONLY_NOW, about="chdir")
def submit_directory(context: RuleContext) -> Iterator[Finding]:
    plan, here = context.plan, context.local
    allowed = plan.cluster.policy.submit_from
    if not here.directory or not allowed or context.reviewed:
        return
    places = [place.replace("{user}", here.user).rstrip("/") for place in allowed]
    if not any(f"{here.directory.rstrip('/')}/".startswith(f"{place}/") for place in places):
        message = f"jobs on {plan.cluster.name} may be submitted only from {' or '.join(places)}; "
        message += f"{'this' if plan.interactive or plan.request.chdir is None else '--chdir'} is "
        message += f"{here.directory}"
        hint = f"cd {places[0]}, and put the script and its data there"
        yield Finding(message, hint, context.cite("policy", "submit_from"))


def _unnamed(context: RuleContext, option: str, key: str, article: str) -> Iterator[Finding]:
    """Yield what is wrong if the site requires an account or a QOS and the job names none."""
    plan, slurm = context.plan, context.slurm
    if not getattr(plan.cluster.policy, f"{key}_required") or getattr(plan.request, key):
        return
    known = plan.cluster.qos.values() if key == "qos" else ()
    usable: Sequence[str] = [qos.name for qos in known if qos.takes(plan.partition.name)]
    if slurm is not None:
        usable = slurm.qos if key == "qos" else slurm.accounts
    prefix = "#SBATCH " if context.batch_script else ""
    hint = "add " + " or ".join(f"{prefix}{option} {name}" for name in usable or (key.upper(),))
    if not context.batch_script:
        hint += f"; or set '{key}: {key.upper()}' once in {context.local.config_file}"
    words = f"{plan.cluster.name} rejects jobs without {article}"
    yield Finding(words, hint, context.cite("policy", f"{key}_required"))


@job_rule(ERROR, "NC231", "account is mandatory", about="account")
def account(context: RuleContext) -> Iterator[Finding]:
    return _unnamed(context, "-A", "account", "an account")


@job_rule(ERROR, "NC232", "QOS is mandatory", about="qos")
def qos(context: RuleContext) -> Iterator[Finding]:
    return _unnamed(context, "-q", "qos", "a QOS")
