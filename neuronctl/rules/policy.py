"""NC2xx: the site's rules: comment, forbidden options, where to submit from, account."""

from __future__ import annotations

import re
from typing import Dict, Iterator, Sequence, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR
from neuronctl.rules.base import Finding, RuleContext, Trait, job_rule, nearest

_SHOWN = 6
"""As many values as a person reads in a hint."""


def _comment_form(context: RuleContext) -> str:
    """Return a valid comment to type."""
    policy = context.plan.cluster.policy.comment
    if policy.form == "fields":
        return f'--comment="{policy.parts}"' if context.batch_script else policy.typed
    return f"--comment TEXT that matches {policy.pattern}" if policy.pattern else "--comment WORD"


def _comment_values(context: RuleContext) -> Dict[str, Tuple[str, ...]]:
    """Return the values that each part of the comment takes, as far as the site lists them."""
    policy = context.plan.cluster.policy.comment
    values_of = {"word": policy.values} if policy.form == "word" else policy.fields
    return {key: values for key, values in values_of.items() if values}


def _choices(context: RuleContext, key: str, values: Tuple[str, ...], word: str = "") -> str:
    """Return the values nearest to ``word``, or some of them, and where all are listed."""
    meanings = context.plan.cluster.policy.comment.meanings

    def listed(some: Sequence[str], separator: str) -> str:
        explained = (f"{each} ({meanings[each]})" if meanings.get(each) else each for each in some)
        return separator.join(explained)

    if len(values) <= _SHOWN:
        return f"{key.upper()} is one of {listed(values, ', ')}"
    # Prefer values that contain the word, are contained in it, or mean it.
    near: Sequence[str] = ()
    if word:
        typed = word.lower().strip()
        alike = [
            value
            for value in values
            if typed and (typed in value or (len(value) > 2 and value in typed))
        ]
        alike = alike or [
            value for value in values if typed and typed in meanings.get(value, "").lower()
        ]
        near = (alike or nearest(word, values))[:4]
    text = f"did you mean {listed(near, ' or ')}?"
    if not near:
        name, near = near_imports(context.local.imports, values)
        needed_by = f" (the program imports {name})" if name else ""
        text = f"{key.upper()} can be {listed((near or values)[:_SHOWN], ', ')}{needed_by};"
    asked = context.plan.request.cluster
    other = f" --cluster {asked}" if asked not in (None, context.catalog.default_cluster) else ""
    return f"{text} 'neuronctl partitions --comment{other}' lists all"


def _joined(hints: Sequence[str]) -> str:
    """Join the hints; say once where all values are listed."""
    # The sentence that _choices() ends with, if a later hint ends with it too.
    repeated = r"; 'neuronctl partitions --comment[^']*' lists all(?=; .* lists all$)"
    return re.sub(repeated, "", "; ".join(hints))


def near_imports(imports: Sequence[str], values: Sequence[str]) -> Tuple[str, Tuple[str, ...]]:
    """Return the first import that values are named like ("": none), and those, best first."""

    def score(value: str, name: str) -> int:
        parts = re.split("[-_]", value)
        return 2 if name in parts else int(len(name) > 3 and any(name in part for part in parts))

    scores = {value: sum(score(value, name) for name in imports) for value in values}
    near = sorted((value for value in values if scores[value]), key=lambda value: -scores[value])
    names = [name for name in imports if any(score(value, name) for value in near)]
    return "".join(names[:1]), tuple(near)


def _right_comment(context: RuleContext) -> str:
    """Return the one correct comment of a batch script, or "" if that is unclear.

    It has the words of the comment that are values of one part, and what --field and --appl name.
    """
    policy, given = context.plan.cluster.policy.comment, context.comment_parts
    if not context.batch_script:
        return ""
    if policy.form == "word":
        word = given.get("appl", "")
        return word if not policy.values or word in policy.values else ""
    words = [word for word in re.split(r"[\s;,&|]+", (context.plan.comment or "").lower()) if word]
    # Part of the comment -> lower-case value -> the value as the site writes it.
    spellings = {
        key: {value.lower(): value for value in values} for key, values in policy.fields.items()
    }
    parts: Dict[str, str] = {}
    for key, values in spellings.items():
        named = {word.removeprefix(f"{key}=") for word in words} & values.keys()
        if key in given:  # a word that may belong to another part is uncertain
            others = {value for name in spellings.keys() - {key} for value in spellings[name]}
            named = {word for word in named if word not in others or f"{key}={word}" in words}
            named = named or {given[key].lower()} & values.keys()
        if len(named) != 1:
            return ""
        parts[key] = values[named.pop()]
    if len(given) < len(parts) < len(words):
        return ""  # its other content would be lost
    return ";".join(f"{key}={value}" for key, value in parts.items())


def _with_right_comment(context: RuleContext, finding: Finding) -> Finding:
    """Return the finding with the correct comment, if there is one."""
    right = _right_comment(context)
    if not right:
        return finding
    return replace(finding, hint=f'write --comment="{right}"', instead=("comment", right))


@job_rule(ERROR, "NC201", "comment is mandatory", about="comment")
def comment_given(context: RuleContext) -> Iterator[Finding]:
    plan, policy = context.plan, context.plan.cluster.policy.comment
    if policy.required and not plan.comment:
        choices = [_choices(context, *each) for each in _comment_values(context).items()]
        hint = _joined([f"add {_comment_form(context)}", *choices])
        message = f"{plan.cluster.name} rejects jobs without a comment"
        finding = Finding(message, hint, context.cite("policy", "comment"))
        yield _with_right_comment(context, finding)


@job_rule(ERROR, "NC202", "comment is not what the site takes", about="comment")
def comment_form(context: RuleContext) -> Iterator[Finding]:
    comment, policy = context.plan.comment, context.plan.cluster.policy.comment
    if not comment:
        return
    source, hint = context.cite("policy", "comment"), ""
    if policy.pattern and not re.fullmatch(policy.pattern, comment):
        source = context.cite("policy", "comment", "pattern")
        yield Finding(f"comment '{comment}' does not match {policy.pattern}", "", source)
    elif policy.form == "word" and (
        len(comment.split()) != 1 or (policy.values and comment not in policy.values)
    ):
        message = f"comment '{comment}' is not one word that the site allows"
        hint = _choices(context, "word", policy.values, comment) if policy.values else ""
        yield _with_right_comment(context, Finding(message, hint, source))
    elif policy.form == "fields" and not policy.pattern:
        for message, hint in _wrong_parts(context, comment):
            yield _with_right_comment(context, Finding(message, hint, source))


def _wrong_parts(context: RuleContext, comment: str) -> Iterator[Tuple[str, str]]:
    """Yield each fault of a comment such as ``field=nlp;appl=vasp``, and a hint.

    A comment with the right keys may have several wrong values; any other has one fault.
    """
    policy = context.plan.cluster.policy.comment
    pairs = [part.partition("=") for part in comment.split(";")]
    given = {key: value for key, _, value in pairs}
    # A comment without any of the keys may itself be a value, of any part.
    default = "" if given.keys() & policy.fields.keys() else comment
    choices = {
        key: _choices(context, key, values, given.get(key, default))
        for key, values in policy.fields.items()
        if given.get(key, default) not in values
    }
    if [key for key, _, _ in pairs] == list(policy.fields) and not re.search(r"[\s,&|]", comment):
        for key, hint in choices.items():
            yield f"{key}={given[key]} in the comment is not a value that the site allows", hint
        return
    if choices or not given.keys() >= policy.fields.keys():
        hint = _joined([f"use {_comment_form(context)} instead", *choices.values()])
    else:  # only the order or a separator is wrong, or there is more than the parts
        hint = "write " + ";".join(f"{key}={given[key]}" for key in policy.fields)
    yield f"comment '{comment}' does not have the form {policy.parts}", hint


@job_rule(ERROR, "NC211", "option is forbidden by the site", about="")
def forbidden_option(context: RuleContext) -> Iterator[Finding]:
    plan = context.plan
    options = {directive.option: directive.value for directive in plan.directives}
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
    """Yield the fault of a job that names no account or QOS where the site requires one.

    option: ``-A`` or ``-q``. key: "account" or "qos". article: with the word, for the message.
    """
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
