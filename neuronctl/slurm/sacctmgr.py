"""sacctmgr, and scontrol's association manager: QOS, associations, and what they limit."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.slurm.fields import column, columns_of, count, names_of, parse_number, read_columns
from neuronctl.slurm.limits import (
    ASSOCIATION_FIELDS,
    QOS_FIELDS,
    Limit,
    Scope,
    read_group_limits,
    read_limits,
)
from neuronctl.slurm.scontrol import words


@dataclass(frozen=True)
class SlurmQos:
    """A QOS and its limits, except those on all its jobs together (``LimitedGroup``).

    factor: LimitFactor, by which limits of its jobs' associations are multiplied; None if unset.
    preempts: the names of the QOS whose jobs it may preempt. preempt_mode: what Slurm does with its
    own jobs if they are preempted; ``cluster``: what the cluster's PreemptMode says.
    """

    name: str = column("Name")
    flags: Tuple[str, ...] = column("Flags", words)
    limits: Tuple[Limit, ...] = ()
    factor: Optional[float] = column("LimitFactor", parse_number, default=None)
    preempts: Tuple[str, ...] = column("Preempt", words, default=())
    priority: Optional[int] = column("Priority", count, default=None)
    preempt_mode: str = column("PreemptMode", default="")

    def limit(self, kind: str, tres: str = "") -> Optional[int]:
        """Return the figure of one of its limits; None if it has none."""
        matching = (
            limit.figure for limit in self.limits if (limit.kind, limit.tres) == (kind, tres)
        )
        return next(matching, None)


@dataclass(frozen=True)
class Association:
    """A user's association with an account in the accounting database. qos: the allowed names.

    partition: the only partition that it applies to, or "". is_default: whether jobs that name no
    account use it. above: the parent accounts, nearest first.
    """

    account: str = column("Account")
    partition: str = column("Partition")
    qos: Tuple[str, ...] = column("QOS", words)
    default_qos: str = column("DefaultQOS")
    limits: Tuple[Limit, ...] = ()
    is_default: bool = False
    above: Tuple[str, ...] = ()


def association_in(partition: str, associations: Sequence[Association]) -> Optional[Association]:
    """Return which of a user's associations in one account applies in a partition, or None.

    One for this partition precedes the one for all partitions.
    """
    by_partition = {association.partition: association for association in associations}
    return by_partition.get(partition, by_partition.get(""))


@dataclass(frozen=True)
class LimitedGroup:
    """Limits on all jobs of a QOS, an account, or an association together, with their current use.

    scope: ``Scope.QOS``, ``ACCOUNT`` or ``ASSOCIATION`` (the user's own in the account ``name``).
    parent: the parent of an account, or "". account, user: a QOS limits only the jobs of
    this account or user; both "": all its jobs.
    """

    scope: str
    name: str
    parent: str
    partition: str
    limits: Tuple[Limit, ...] = ()
    account: str = ""
    user: str = ""

    @property
    def is_whole(self) -> bool:
        """Return True if the limits are on all jobs together, not on one account's or user's."""
        return not (self.account or self.user)


_QOS_COLUMNS = columns_of(SlurmQos)
_ASSOCIATION_COLUMNS = columns_of(Association)
_QOS_ASKED = (*names_of(_QOS_COLUMNS), *QOS_FIELDS)
_ASSOCIATION_ASKED = (*names_of(_ASSOCIATION_COLUMNS), "DefaultAccount", *ASSOCIATION_FIELDS)


def sacctmgr_questions(user: str, cluster: str) -> Tuple[List[str], str]:
    """Return argv and input of one sacctmgr for all QOS and the user's associations."""
    where = f" cluster={cluster}" if cluster else ""
    return (
        ["sacctmgr", "--noheader", "--parsable2"],
        f"show qos format={','.join(_QOS_ASKED)}\n"
        f"show user {user} withassoc{where} format={','.join(_ASSOCIATION_ASKED)}\n",
    )


def parse_groups(text: str, user: str) -> Tuple[LimitedGroup, ...]:
    """Return the groups in ``scontrol --oneliner show assoc_mgr`` that apply to a user."""
    groups: List[LimitedGroup] = []
    for line in text.splitlines():
        group_text, _, member_texts = line.partition(" Account Limits=")
        group = _parse_group(group_text, user)
        if group is not None:
            groups += [group, *_parse_members(member_texts, group, user)]
    return tuple(groups)


def _parse_group(text: str, user: str) -> Optional[LimitedGroup]:
    """Return the group that a line describes; None for another user's, and for a heading."""
    owner = _before_id(text, "UserName")
    if text.startswith("QOS="):
        scope = Scope.QOS
        name = _before_id(text, "QOS")
    elif text.startswith("ClusterName=") and owner in ("", user):
        scope = Scope.ASSOCIATION if owner else Scope.ACCOUNT
        name = _before_id(text, "Account")
    else:
        return None
    return LimitedGroup(
        scope,
        name,
        parent=_before_id(text, "ParentAccount"),
        partition=_before_id(text, "Partition"),
        limits=read_group_limits(text, scope, name),
    )


def _parse_members(text: str, qos: LimitedGroup, user: str) -> Iterator[LimitedGroup]:
    """Yield the limits of a QOS on each account, and on the user if they had a job.

    text: `` lab={MaxJobsPA=4(1) …} User Limits= kim(1000)={MaxJobsPU=4(1) …} lee(1001)={…}``.
    """
    account_texts, _, user_texts = text.partition("User Limits=")
    for account, limits in re.findall(r"([^ ,={}]+)=\{([^}]*)\}", account_texts):
        yield replace(qos, account=account, limits=read_group_limits(limits, qos.scope, qos.name))
    match = re.search(rf" {re.escape(user)}\(\d+\)={{([^}}]*)}}", user_texts)
    if match is not None:
        yield replace(qos, user=user, limits=read_group_limits(match[1], qos.scope, qos.name))


def _before_id(line: str, key: str) -> str:
    """Return kim of ``UserName=kim(1000)``."""
    return f" {line}".partition(f" {key}=")[2].partition(" ")[0].partition("(")[0]


def parse_qos(text: str) -> Tuple[SlurmQos, ...]:
    """Parse sacctmgr's QOS rows; rows of another length are associations."""
    return tuple(
        SlurmQos(
            **read_columns(_QOS_COLUMNS, row),
            limits=read_limits({kind: row[kind] for kind in QOS_FIELDS}, Scope.QOS, row["Name"]),
        )
        for row in _rows(text, _QOS_ASKED)
    )


def parse_associations(text: str, groups: Sequence[LimitedGroup] = ()) -> Tuple[Association, ...]:
    """Parse sacctmgr's rows on the user's associations. groups: the accounts and their parents."""
    associations = []
    for row in _rows(text, _ASSOCIATION_ASKED):
        account = row["Account"]
        texts = {kind: row[field] for field, kind in ASSOCIATION_FIELDS.items()}
        parents = (group.parent for group in with_those_above(account, groups))
        values = read_columns(_ASSOCIATION_COLUMNS, row)
        values["limits"] = read_limits(texts, Scope.ASSOCIATION, account)
        values["is_default"] = account == row["DefaultAccount"]
        associations.append(Association(**values, above=tuple(filter(None, parents))))
    return tuple(associations)


def with_those_above(account: str, groups: Sequence[LimitedGroup]) -> Iterator[LimitedGroup]:
    """Yield an account's group and those of the accounts above it, nearest first."""
    accounts = {group.name: group for group in groups if group.scope == Scope.ACCOUNT}
    while account in accounts:
        group = accounts.pop(account)
        yield group
        account = group.parent


def qos_groups(name: str, groups: Sequence[LimitedGroup]) -> List[LimitedGroup]:
    """Return the groups of one QOS."""
    every_qos = (group for group in groups if group.scope == Scope.QOS)
    return [group for group in every_qos if group.name.lower() == name.lower()]


def _rows(text: str, fields: Sequence[str]) -> List[Dict[str, str]]:
    """Return sacctmgr's rows with these fields; skip rows of another length, and unnamed ones."""
    rows = [line.split("|") for line in text.splitlines()]
    return [dict(zip(fields, row)) for row in rows if len(row) == len(fields) and row[0]]
