"""What check finds of the defects in the corpus, and how seldom it is wrong."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Tuple

import pytest
from measure import KINDS, Outcome, outcomes, scripts

from neuronctl.common.rule_codes import CODES

pytestmark = pytest.mark.xdist_group("corpus")  # which is measured once


@lru_cache(maxsize=1)
def corpus() -> Tuple[Outcome, ...]:
    return tuple(outcomes(scripts()))


@pytest.mark.parametrize(("degree", "least"), [("severe", 90), ("moderate", 75)])
def test_so_many_defects_are_found(degree: str, least: int) -> None:
    """Of those that check looks for."""
    named = [
        one
        for two in corpus()
        for one in two.script.named
        if one.degree == degree and KINDS[one.kind]
    ]
    missed = [one for two in corpus() for one in two.missed if one in named]
    assert len(named) > 30
    assert 100 * (len(named) - len(missed)) >= least * len(named), missed


def test_no_error_and_hardly_a_warning_is_wrong() -> None:
    for severity, most in (("error", 0), ("warning", 3)):
        every = [one for two in corpus() for one in two.findings if one.severity == severity]
        wrong = [one for two in corpus() for one in two.wrong if one.severity == severity]
        assert 100 * len(wrong) <= most * len(every), wrong


def test_a_rule_that_is_wrong_once_in_twenty_only_notes() -> None:
    every = Counter(one.code for two in corpus() for one in two.findings)
    wrong = Counter(one.code for two in corpus() for one in two.wrong if one.severity != "note")
    assert [code for code, count in wrong.items() if 20 * count > every[code]] == []


def test_the_corpus_is_as_it_says() -> None:
    every = scripts()
    assert len(every) >= 200
    assert len({one.name for one in every}) == len(every)
    assert sum(not one.named for one in every) > 80  # without a defect
    assert {one.kind for script in every for one in script.named} == set(KINDS)
    assert {code for codes in KINDS.values() for code in codes.split()} <= set(CODES)
