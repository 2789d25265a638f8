"""NC2xx: the site's rules: comment, forbidden options, where to submit from, account."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

from neuronctl.catalog.model import CommentField, CommentPolicy
from neuronctl.common.frozen import replace
from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.rules.base import RuleContext, Violation, nearest, rule


def _comment_form(context: RuleContext) -> str:
    """What to type for a valid comment."""
    policy = context.plan.cluster.policy.comment
    if policy.form == "fields" and context.of_script:
        return f'--comment="{policy.parts}"'
    if policy.form == "fields":
        return " ".join(f"--{field.key} {field.key.upper()}" for field in policy.fields)
    return f"--comment TEXT that matches {policy.pattern}" if policy.pattern else "--comment WORD"


_SHOWN = 6
"""As many values as a person reads in a hint."""


def _values(context: RuleContext, near: Sequence[str] = ()) -> str:
    """The allowed values, for somebody who does not know them yet; not where one is near."""
    policy = context.plan.cluster.policy.comment
    fields = policy.fields
    if policy.form == "word":
        fields = (CommentField("word", policy.values),)
    told = [field for field in fields if field.values and not set(near) & set(field.values)]
    lists = [_short(context, part.key, part.values) for part in told]
    lists += _where_all(context, *(part.values for part in told))
    return "".join(f"; {text}" for text in lists)


def _choices(context: RuleContext, key: str, values: Tuple[str, ...], word: str = "") -> str:
    """The allowed values nearest to ``word``, or where none is near, some or all of them."""
    close = nearest(word, values)
    # A value that contains the word, or is contained in it, is what was meant more often.
    related = tuple(
        value
        for value in values
        if word and (word.lower() in value or (len(value) > 2 and value in word.lower()))
    )
    best = tuple(dict.fromkeys(related or close))[:4]
    every = _where_all(context, values)
    if best and every:
        meanings = context.plan.cluster.policy.comment.meanings
        text = f"did you mean {' or '.join(_meant(value, meanings) for value in best)}?"
        return " ".join([text, *every])
    return "; ".join([_short(context, key, values), *every])


def _short(context: RuleContext, key: str, values: Tuple[str, ...]) -> str:
    """``APPL can be pytorch, pytorch-ddp (the program imports torch)``; all of few values."""
    meanings = context.plan.cluster.policy.comment.meanings
    few = len(values) <= _SHOWN
    name, near = ("", ()) if few else near_imports(context.local.imports, values)
    shown = ", ".join(_meant(value, meanings) for value in (near or values)[:_SHOWN])
    needed_by = f" (the program imports {name})" if name else ""
    return f"{key.upper()} {'is one of' if few else 'can be'} {shown}{needed_by}"


def _meant(value: str, meanings: Mapping[str, str]) -> str:
    return f"{value} ({meanings[value]})" if meanings.get(value) else value


def _where_all(context: RuleContext, *lists: Sequence[str]) -> List[str]:
    """How to see all values, where one of these lists is too long for a hint."""
    if all(len(values) <= _SHOWN for values in lists):
        return []
    asked = context.plan.request.cluster
    other = f" --cluster {asked}" if asked not in (None, context.catalog.default_cluster) else ""
    return [f"'neuronctl partitions --comment{other}' lists all"]


def near_imports(imports: Sequence[str], values: Sequence[str]) -> Tuple[str, Tuple[str, ...]]:
    """A name that a program imports, and the values that are named after such, best first."""

    def score(value: str, name: str) -> int:
        parts = re.split("[-_]", value)
        return 2 if name in parts else int(len(name) > 3 and any(name in part for part in parts))

    scores = {value: sum(score(value, name) for name in imports) for value in values}
    near = sorted((value for value in values if scores[value]), key=lambda value: -scores[value])
    names = [name for name in imports if any(score(value, name) for value in near)]
    return "".join(names[:1]), tuple(near)


def _right_comment(context: RuleContext) -> str:
    """The one right comment of a batch script, "" where that is not clear.

    It is what check's options say, else what the script's comment already says of each part.
    """
    policy, parts = context.plan.cluster.policy.comment, context.comment_parts
    if not context.of_script:
        return ""
    if policy.form == "word":
        word = parts.get("appl", "")
        return word if not policy.values or word in policy.values else ""
    known = {field.key: {value.lower(): value for value in field.values} for field in policy.fields}
    given = {key: known[key].get(parts[key].lower(), "") for key in known if key in parts}
    found: Dict[str, str] = {}
    every = policy.form == "fields"
    for word in re.split(r"[\s;,&|]+", context.plan.comment or ""):
        key, _, value = word.rpartition("=")
        meant = [field for field in known if field not in given and key in (field, "")]
        meant = [field for field in meant if value.lower() in known[field]]
        if len(meant) == 1 and meant[0] not in found:
            found[meant[0]] = known[meant[0]][value.lower()]
        elif word and key not in given:
            every = False  # what it says would be lost
    whole = {**found, **given}
    if not all(whole.get(key) for key in known) or not (every or len(given) == len(known)):
        return ""
    return ";".join(f"{key}={whole[key]}" for key in known)


def _mended(context: RuleContext, found: Violation) -> Violation:
    """The same, with the right comment where there is one."""
    right = _right_comment(context)
    if not right:
        return found
    return replace(found, hint=f'write --comment="{right}"', instead=("comment", right))


@rule(ERROR, "NC201", "comment is mandatory", "lacks", about="comment")
def comment_given(context: RuleContext) -> Iterator[Violation]:
    plan, policy = context.plan, context.plan.cluster.policy.comment
    if policy.required and not plan.comment:
        found = Violation(
            f"{plan.cluster.name} rejects jobs without a comment",
            f"add {_comment_form(context)}{_values(context)}",
            context.cite("policy", "comment"),
        )
        yield _mended(context, found)


def _separated(comment: str, policy: CommentPolicy) -> str:
    """The comment with ``;`` alone between its parts; "" where nothing else is between them."""
    parts = [word for word in re.split(r"[\s,:&|;]+", comment) if word]
    keys = [part.partition("=")[0] for part in parts]
    right = ";".join(parts)
    known = len(parts) > 1 and keys == [field.key for field in policy.fields]
    return right if known and right != comment else ""


def _addition(context: RuleContext, key: str) -> str:
    if context.plan.request.comment is None:
        return f"add --{key}"
    # --comment hides --field and --appl.
    return f"add ;{key}={key.upper()} to it, or use {_comment_form(context)} instead"


@rule(ERROR, "NC202", "comment is not what the site takes", "lacks", about="comment")
def comment_form(context: RuleContext) -> Iterator[Violation]:
    return (_mended(context, found) for found in _wrong_comment(context))


def _wrong_comment(context: RuleContext) -> Iterator[Violation]:
    plan, policy = context.plan, context.plan.cluster.policy.comment
    comment = plan.comment
    if not comment:
        return
    source = context.cite("policy", "comment")
    if policy.pattern and not re.fullmatch(policy.pattern, comment):
        told = context.cite("policy", "comment", "pattern")
        yield Violation(f"comment '{comment}' does not match {policy.pattern}", "", told)
        return
    if policy.form == "word":
        if len(comment.split()) != 1:
            yield Violation(
                f"comment '{comment}' is not one word", "--comment takes one word here", source
            )
        elif policy.values and comment not in policy.values:
            yield Violation(
                f"comment '{comment}' is not one that the site allows",
                _choices(context, "word", policy.values, comment),
                source,
            )
        return
    if policy.form != "fields":
        return
    separate = _separated(comment, policy)
    if separate:
        yield Violation(
            f"the parts of comment '{comment}' are not separated by ';' alone",
            f"write --comment '{separate}'",
            source,
        )
        return
    pairs: Dict[str, str] = {}
    keys: List[str] = []
    for part in comment.split(";"):
        key, equals, value = part.partition("=")
        if not equals:
            values = tuple(value for field in policy.fields for value in field.values)
            close = nearest(comment, values)
            yield Violation(
                f"comment '{comment}' does not have the form {policy.parts}",
                f"use {_comment_form(context)} instead"
                + (f"; closest to '{comment}': {' '.join(dict.fromkeys(close))}" if close else "")
                + _values(context, close),
                source,
            )
            return
        pairs[key] = value
        keys.append(key)
    known = {field.key: field.values for field in policy.fields}
    for key in pairs:
        if key not in known:
            yield Violation(
                f"comment '{comment}' has a key '{key}' that the site does not know",
                "keys: " + " ".join(known),
                source,
            )
    for key, values in known.items():
        if key not in pairs:
            yield Violation(
                f"comment '{comment}' has no {key}=",
                f"{_addition(context, key)}; " + _choices(context, key, values),
                source,
            )
        elif pairs[key] not in values:
            yield Violation(
                f"{key}={pairs[key]} in the comment is not a value that the site allows",
                _choices(context, key, values, pairs[key]),
                source,
            )
    if keys != list(known) and set(keys) == set(known):
        yield Violation(
            f"comment '{comment}' must have each part once, in the order {policy.parts}",
            "write " + ";".join(f"{key}={pairs[key]}" for key in known),
            source,
        )


@rule(WARNING, "NC203", "field and appl have no meaning here", "only_now", about="comment")
def comment_parts(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    policy = plan.cluster.policy.comment
    given = [key for key in ("field", "appl") if getattr(request, key)]
    ignored = [f"--{key}" for key in given if policy.values_of(key) is None]
    if ignored and request.comment is None:
        yield Violation(
            f"ignoring {' and '.join(ignored)}: comments on {plan.cluster.name} have no such parts",
            "use --comment TEXT" if policy.form == "any" else "",
        )


@rule(ERROR, "NC211", "option is forbidden by the site", about="")
def forbidden_option(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    for directive in plan.directives:
        reason = plan.cluster.policy.forbidden_options.get(directive.option)
        if reason is not None:
            value = "" if directive.value is None else f"={directive.value}"
            source = context.cite("policy", "forbidden_options", directive.option)
            may_not = "should not be used" if source.doubtful else "is not allowed"
            yield Violation(
                f"--{directive.option}{value} {may_not} on {plan.cluster.name}: {reason}",
                f"leave --{directive.option} out",
                source,
                about=(directive.option,),
            )


@rule(ERROR, "NC221", "wrong directory to submit from", "only_now", about="chdir")
def submit_directory(context: RuleContext) -> Iterator[Violation]:
    plan, here = context.plan, context.local
    allowed = plan.cluster.policy.submit_from
    if not here.directory or not allowed or context.reviewed:
        return
    places = [place.replace("{user}", here.user).rstrip("/") for place in allowed]
    directory = here.directory.rstrip("/")
    if not any(directory == place or directory.startswith(place + "/") for place in places):
        yield Violation(
            f"jobs on {plan.cluster.name} may be submitted only from {' or '.join(places)}; "
            f"{'this' if plan.interactive or plan.request.chdir is None else '--chdir'} is "
            f"{here.directory}",
            f"cd {places[0]}, and put the script and its data there",
            context.cite("policy", "submit_from"),
        )


def _how_to_name(context: RuleContext, option: str, key: str, usable: Sequence[str]) -> str:
    """Where an account or QOS is named; ``usable``: those that Slurm says are the user's."""
    name = key.upper()
    if context.of_script:
        return "add " + " or ".join(
            f"#SBATCH {option} {partition}" for partition in usable or (name,)
        )
    words = " or ".join(f"{option} {partition}" for partition in usable or (name,))
    return f"add {words}; or set '{key}: {name}' once in {context.local.config_file}"


def _named(context: RuleContext, option: str, key: str, article: str) -> Iterator[Violation]:
    """What is wrong where the site requires an account or a QOS."""
    plan = context.plan
    if getattr(plan.cluster.policy, f"{key}_required") and not getattr(plan.request, key):
        usable: Sequence[str] = ()
        on_cluster = context.on_cluster
        if on_cluster is not None:
            usable = on_cluster.usable_qos if key == "qos" else on_cluster.usable_accounts
        elif key == "qos":
            usable = _qos_of_catalog(context)
        yield Violation(
            f"{plan.cluster.name} rejects jobs without {article}",
            _how_to_name(context, option, key, usable),
            context.cite("policy", f"{key}_required"),
        )


@rule(ERROR, "NC231", "account is mandatory", about="account")
def account(context: RuleContext) -> Iterator[Violation]:
    return _named(context, "-A", "account", "an account")


@rule(ERROR, "NC232", "QOS is mandatory", about="qos")
def qos(context: RuleContext) -> Iterator[Violation]:
    return _named(context, "-q", "qos", "a QOS")


def _qos_of_catalog(context: RuleContext) -> Tuple[str, ...]:
    """Those that the job's partition takes, as the catalog has it."""
    plan = context.plan
    return tuple(qos.name for qos in plan.cluster.qos.values() if qos.takes(plan.partition.name))


def _slurm_told_qos(context: RuleContext) -> bool:
    on_cluster = context.on_cluster
    return on_cluster is not None and on_cluster.snapshot.limits.qos is not None


@rule(ERROR, "NC233", "QOS is not in the catalog", about="qos")
def qos_in_catalog(context: RuleContext) -> Iterator[Violation]:
    cluster, asked = context.plan.cluster, context.plan.request.qos
    # Several ("a,b") are one text, and Slurm takes any of them.
    if asked is None or not cluster.qos or _slurm_told_qos(context):
        return
    unknown = [name for name in asked.split(",") if cluster.qos_named(name) is None]
    if unknown:
        # A guide's list need not have all of them.
        sure = context.catalog.evidence(cluster.name, "qos").kind == "slurm"
        usable = _qos_of_catalog(context)
        close = nearest(unknown[0], usable)
        yield Violation(
            f"QOS '{unknown[0]}' is not in the catalog's list of {cluster.name}",
            f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(usable)}",
            context.cite("qos"),
            None if sure else WARNING,
        )


@rule(ERROR, "NC234", "partition does not take this QOS", "closes_partition", about="qos partition")
def qos_in_partition(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    known = plan.cluster.qos_named(plan.request.qos)
    if known is None or _slurm_told_qos(context):
        return
    if not known.takes(plan.partition.name):
        usable = _qos_of_catalog(context)
        other = f", or -q {' or -q '.join(usable)}" if usable else ""
        yield Violation(
            f"partition {plan.partition.name} does not take jobs of QOS {known.name}",
            f"use -p {' or '.join(known.partitions)}{other}",
            context.cite("qos", known.name, "partitions"),
        )
