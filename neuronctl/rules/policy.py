"""NC2xx: the site's rules: comment, forbidden options, where to submit from, account."""

from __future__ import annotations

import re
from typing import Iterator, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import CommentPolicy
from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR
from neuronctl.rules.base import Finding, RuleContext, Trait, job_rule, nearest

_SHOWN = 6
"""The number of values that a person reads in a hint."""


def _comment_form(context: RuleContext) -> str:
    """Return a valid comment to type."""
    policy = context.plan.cluster.policy.comment
    if policy.form == "fields":
        return f'--comment="{policy.parts}"' if context.batch_script else policy.typed
    return f"--comment TEXT that matches {policy.pattern}" if policy.pattern else "--comment WORD"


def _explain(context: RuleContext, values: Sequence[str], separator: str) -> str:
    """Join values of the comment, each with what it stands for, if its name does not say it."""
    meanings = context.plan.cluster.policy.comment.meanings
    words = [f"{value} ({meanings[value]})" if meanings.get(value) else value for value in values]
    return separator.join(words)


def _choices(context: RuleContext, key: str, values: Tuple[str, ...], typed: str = "") -> str:
    """Return, as a hint, which values a part of the comment takes. typed: a wrong one, or ""."""
    if len(values) <= _SHOWN:
        return f"{key.upper()} is one of {_explain(context, values, ', ')}"
    asked = context.plan.request.cluster
    is_default = asked in (None, context.catalog.default_cluster)
    option = "" if is_default else f" --cluster {asked}"
    listing = f"'neuronctl partitions --comment{option}' lists all"
    similar = _similar_values(context, values, typed)
    if similar:
        return f"did you mean {_explain(context, similar, ' or ')}? {listing}"
    name, imported = near_imports(context.local.imports, values)
    reason = f" (the program imports {name})" if name else ""
    shown = _explain(context, (imported or values)[:_SHOWN], ", ")
    return f"{key.upper()} can be {shown}{reason}; {listing}"


def _similar_values(context: RuleContext, values: Tuple[str, ...], typed: str) -> Sequence[str]:
    """Return up to four values like the typed one: in text, else in meaning, else in spelling."""
    meanings = context.plan.cluster.policy.comment.meanings
    word = typed.lower().strip()
    if not word:
        return ()
    alike = [value for value in values if word in value or (len(value) > 2 and value in word)]
    meant = [value for value in values if word in meanings.get(value, "").lower()]
    return (alike or meant or nearest(typed, values))[:4]


def _join_hints(hints: Sequence[str]) -> str:
    """Join the hints; say once where all values are listed."""
    # The sentence that _choices() ends with, if a later hint ends with it too.
    repeated = r"; 'neuronctl partitions --comment[^']*' lists all(?=; .* lists all$)"
    return re.sub(repeated, "", "; ".join(hints))


def near_imports(imports: Sequence[str], values: Sequence[str]) -> Tuple[str, Tuple[str, ...]]:
    """Return the first import after which values are named, or "", and these values, best first."""

    def score(value: str, name: str) -> int:  # 2: a part of the value; 1: within a part; 0: no
        parts = re.split("[-_]", value)
        return 2 if name in parts else int(len(name) > 3 and any(name in part for part in parts))

    scores = {value: sum(score(value, name) for name in imports) for value in values}
    near = sorted((value for value in values if scores[value]), key=lambda value: -scores[value])
    matching = [name for name in imports if any(score(value, name) for value in near)]
    return "".join(matching[:1]), tuple(near)


def _right_comment(context: RuleContext) -> str:
    """Return the one correct comment of a batch script, or "" if that is unclear.

    The correct comment has the words of the job's comment that are values of one part, and the
    values of --field and --appl.
    """
    policy, options = context.plan.cluster.policy.comment, context.comment_parts
    if not context.batch_script:
        return ""
    if policy.form == "word":
        word = options.get("appl", "")
        return word if not policy.values or word in policy.values else ""
    words = [word for word in re.split(r"[\s;,&|]+", (context.plan.comment or "").lower()) if word]
    parts = {key: _right_value(policy, key, words, options.get(key)) for key in policy.fields}
    would_lose_words = len(words) > len(parts)
    has_all_options = len(options) >= len(parts)  # then the words do not matter
    if (would_lose_words and not has_all_options) or not all(parts.values()):
        return ""
    comment = ";".join(f"{key}={value}" for key, value in parts.items())
    return comment if re.fullmatch(policy.pattern or ".*", comment) else ""


def _right_value(
    policy: CommentPolicy, key: str, words: Sequence[str], option: Optional[str]
) -> str:
    """Return the value of a part of the comment, or "" if that is unclear.

    words: of the comment, in lower case. option: the value of --field or --appl, which counts if
    no word is certain; None without such an option.
    """
    # Lower-case value -> the value as the site writes it.
    spellings = {value.lower(): value for value in policy.fields[key]}
    named = {word.removeprefix(f"{key}=") for word in words} & spellings.keys()
    if option is not None:
        others = [values for name, values in policy.fields.items() if name != key]
        ambiguous = {value.lower() for values in others for value in values}
        certain = {word for word in named if word not in ambiguous or f"{key}={word}" in words}
        named = certain or {option.lower()} & spellings.keys()
    return spellings[named.pop()] if len(named) == 1 else ""


def _with_right_comment(context: RuleContext, finding: Finding) -> Finding:
    """Return the finding with the correct comment, if there is one."""
    right = _right_comment(context)
    if not right:
        return finding
    return replace(finding, hint=f'write --comment="{right}"', instead=("comment", right))


@job_rule(ERROR, "NC201", "comment is mandatory", about="comment")
def check_comment_given(context: RuleContext) -> Iterator[Finding]:
    plan, policy = context.plan, context.plan.cluster.policy.comment
    if policy.required and not plan.comment:
        values_of = {"word": policy.values} if policy.form == "word" else policy.fields
        choices = [_choices(context, key, values) for key, values in values_of.items() if values]
        hint = _join_hints([f"add {_comment_form(context)}", *choices])
        message = f"{plan.cluster.name} rejects jobs without a comment"
        finding = Finding(message, hint, context.cite("policy", "comment"))
        yield _with_right_comment(context, finding)


@job_rule(ERROR, "NC202", "comment is not what the site takes", about="comment")
def check_comment_form(context: RuleContext) -> Iterator[Finding]:
    if context.plan.comment:
        for finding in _comment_faults(context, context.plan.comment):
            yield _with_right_comment(context, finding)


def _comment_faults(context: RuleContext, comment: str) -> Iterator[Finding]:
    """Yield what is wrong with a comment."""
    policy, source = context.plan.cluster.policy.comment, context.cite("policy", "comment")
    if policy.pattern and not re.fullmatch(policy.pattern, comment):
        source = context.cite("policy", "comment", "pattern")
        yield Finding(f"comment '{comment}' does not match {policy.pattern}", "", source)
    elif policy.form == "word":
        if len(comment.split()) != 1 or (policy.values and comment not in policy.values):
            message = f"comment '{comment}' is not one word that the site allows"
            hint = _choices(context, "word", policy.values, comment) if policy.values else ""
            yield Finding(message, hint, source)
    elif policy.form == "fields" and not policy.pattern:
        for message, hint in _wrong_parts(context, comment):
            yield Finding(message, hint, source)


def _wrong_parts(context: RuleContext, comment: str) -> Iterator[Tuple[str, str]]:
    """Yield each fault of a comment such as ``field=nlp;appl=vasp``, and a hint.

    A comment with the right keys may have several wrong values; any other has one fault.
    """
    policy = context.plan.cluster.policy.comment
    pairs = [part.partition("=") for part in comment.split(";")]
    keys = [key for key, _, _ in pairs]
    given = {key: value for key, _, value in pairs}
    # A comment without any of the keys may itself be a value, of any part.
    default = "" if given.keys() & policy.fields.keys() else comment
    values = {key: given.get(key, default) for key in policy.fields}
    choices = {
        key: _choices(context, key, allowed, values[key])
        for key, allowed in policy.fields.items()
        if values[key] not in allowed
    }
    has_right_keys = keys == list(policy.fields) and not re.search(r"[\s,&|]", comment)
    if has_right_keys:
        for key, hint in choices.items():
            yield f"{key}={values[key]} in the comment is not a value that the site allows", hint
        return
    hint = _join_hints([f"use {_comment_form(context)} instead", *choices.values()])
    has_every_key = policy.fields.keys() <= {*keys}
    if has_every_key and not choices:
        # Only the order or a separator is wrong, or there is more than the parts.
        hint = "write " + ";".join(f"{key}={value}" for key, value in values.items())
    yield f"comment '{comment}' does not have the form {policy.parts}", hint


@job_rule(ERROR, "NC211", "option is forbidden by the site", about="")
def check_forbidden_option(context: RuleContext) -> Iterator[Finding]:
    plan = context.plan
    options = {directive.option: directive.value for directive in plan.directives}
    options.update((f"launcher={launch.launcher.name}", None) for launch in plan.launches)
    for option, value in options.items():
        reason = plan.cluster.policy.forbidden_options.get(option)
        if reason is not None:
            typed = f"--{option}" if value is None else f"--{option}={value}"
            source = context.cite("policy", "forbidden_options", option)
            may_not = "should not be used" if source.doubtful else "is not allowed"
            message = f"{typed} {may_not} on {plan.cluster.name}: {reason}"
            hint = f"leave --{option} out"
            yield Finding(message, hint, source, about=(option,))


@job_rule(ERROR, "NC221", "wrong directory to submit from", Trait.ONLY_NOW, about="chdir")
def check_submit_directory(context: RuleContext) -> Iterator[Finding]:
    plan, here = context.plan, context.local
    allowed = plan.cluster.policy.submit_from
    if not here.directory or not allowed or context.reviewed:
        return
    places = [place.replace("{user}", here.user).rstrip("/") for place in allowed]
    directory = f"{here.directory.rstrip('/')}/"
    if not any(directory.startswith(f"{place}/") for place in places):
        is_working_directory = plan.interactive or plan.request.chdir is None
        message = f"jobs on {plan.cluster.name} may be submitted only from {' or '.join(places)}; "
        message += f"{'this' if is_working_directory else '--chdir'} is {here.directory}"
        hint = f"cd {places[0]}, and put the script and its data there"
        yield Finding(message, hint, context.cite("policy", "submit_from"))


def _find_unnamed(context: RuleContext, option: str, key: str, noun: str) -> Iterator[Finding]:
    """Yield the fault of a job that names no account or QOS where the site requires one.

    option: ``-A`` or ``-q``. key: "account" or "qos". noun: in the message, such as "a QOS".
    """
    plan, slurm = context.plan, context.slurm
    if not getattr(plan.cluster.policy, f"{key}_required") or getattr(plan.request, key):
        return
    names: Sequence[str] = ()
    if slurm is not None:
        names = slurm.qos if key == "qos" else slurm.accounts
    elif key == "qos":
        qos_of_site = plan.cluster.qos.values()
        names = [qos.name for qos in qos_of_site if qos.takes(plan.partition.name)]
    prefix = "#SBATCH " if context.batch_script else ""
    hint = "add " + " or ".join(f"{prefix}{option} {name}" for name in names or (key.upper(),))
    if not context.batch_script:
        hint += f"; or set '{key}: {key.upper()}' once in {context.local.config_file}"
    message = f"{plan.cluster.name} rejects jobs without {noun}"
    yield Finding(message, hint, context.cite("policy", f"{key}_required"))


@job_rule(ERROR, "NC231", "account is mandatory", about="account")
def check_account(context: RuleContext) -> Iterator[Finding]:
    return _find_unnamed(context, "-A", "account", "an account")


@job_rule(ERROR, "NC232", "QOS is mandatory", about="qos")
def check_qos(context: RuleContext) -> Iterator[Finding]:
    return _find_unnamed(context, "-q", "qos", "a QOS")
