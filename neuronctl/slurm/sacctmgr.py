"""sacctmgr, and scontrol's association manager: QOS, associations, and what they limit."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.slurm.fields import (
    column,
    columns_of,
    count,
    names_of,
    parse_number,
    read_columns,
)
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
    preempts: the names of the QOS whose jobs it may preempt. preempt_mode: what becomes of its own
    jobs then; ``cluster``: as the cluster has it.
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


def association_in(partition: str, every: Sequence[Association]) -> Optional[Association]:
    """Return the association that applies in a partition, of a user's in one account, or None."""
    here = [association for association in every if association.partition in ("", partition)]
    return max(here, key=lambda association: association.partition, default=None)


@dataclass(frozen=True)
class LimitedGroup:
    """Limits on all jobs of a QOS, an account, or an association together, with their current use.

    scope: ``Scope.QOS``, ``ACCOUNT`` or ``ASSOCIATION`` (the user's own in the account ``name``).
    parent: the parent of an account, or "". account, user: the one to whose jobs a QOS applies the
    limits; both "": to all its jobs.
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
    groups = []
    for line in text.splitlines():
        owner = _before_id(line, "UserName")
        if line.startswith("QOS="):
            scope = Scope.QOS
            name = _before_id(line, "QOS")
        elif line.startswith("ClusterName=") and owner in ("", user):
            scope = Scope.ASSOCIATION if owner else Scope.ACCOUNT
            name = _before_id(line, "Account")
        else:
            continue
        parent, partition = _before_id(line, "ParentAccount"), _before_id(line, "Partition")
        whole, _, parts = line.partition(" Account Limits=")
        limits = read_group_limits(whole, scope, name)
        groups.append(LimitedGroup(scope, name, parent, partition, limits))
        account_limits, _, user_limits = parts.partition("User Limits=")
        for account, limits_text in re.findall(r"([^ ,={}]+)=\{([^}]*)\}", account_limits):
            limits = read_group_limits(limits_text, scope, name)
            groups.append(LimitedGroup(scope, name, parent, partition, limits, account))
        # It lists all users who had a job: " kim(1000)={MaxJobsPU=4(1) …} lee(1001)={…}".
        match = re.search(rf" {re.escape(user)}\(\d+\)={{([^}}]*)}}", user_limits)
        if match is not None:
            limits = read_group_limits(match[1], scope, name)
            groups.append(LimitedGroup(scope, name, parent, partition, limits, user=user))
    return tuple(groups)


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
    return tuple(
        Association(
            **read_columns(_ASSOCIATION_COLUMNS, row),
            limits=read_limits(
                {kind: row[field] for field, kind in ASSOCIATION_FIELDS.items()},
                Scope.ASSOCIATION,
                row["Account"],
            ),
            is_default=row["Account"] == row["DefaultAccount"],
            above=tuple(
                group.parent for group in with_those_above(row["Account"], groups) if group.parent
            ),
        )
        for row in _rows(text, _ASSOCIATION_ASKED)
    )


def with_those_above(account: str, groups: Sequence[LimitedGroup]) -> Iterator[LimitedGroup]:
    """Yield an account's group and those of the accounts above it, nearest first."""
    accounts = {group.name: group for group in groups if group.scope == Scope.ACCOUNT}
    while account in accounts:
        group = accounts.pop(account)
        yield group
        account = group.parent


def qos_groups(name: str, groups: Sequence[LimitedGroup]) -> List[LimitedGroup]:
    """Return the groups of one QOS."""
    same = (group for group in groups if group.scope == Scope.QOS)
    return [group for group in same if group.name.lower() == name.lower()]


def _rows(text: str, fields: Sequence[str]) -> List[Dict[str, str]]:
    rows = [line.split("|") for line in text.splitlines()]
    return [dict(zip(fields, row)) for row in rows if len(row) == len(fields) and row[0]]
