"""Arguments and variables arrive at every process as they were typed: 0 altered."""

from __future__ import annotations

import pytest
from launching import ARGUMENTS, CELLS, VARIABLES, hexed, ran


def test_the_arguments_are_hostile_enough() -> None:
    """What they hold, and that no two launchers are spared one."""
    assert len(ARGUMENTS) >= 200
    assert max(map(len, ARGUMENTS)) == 100_000
    together = "\0".join(ARGUMENTS)
    for needle in (*" `;&*~!\n\t\\실", "$HOME", "$(", "\0--"):
        assert needle in together
    assert "" in ARGUMENTS


@pytest.mark.parametrize(("launcher", "wrapper"), CELLS)
def test_arguments_and_variables_arrive(
    launcher: str, wrapper: str, request: pytest.FixtureRequest
) -> None:
    cell = ran(request, launcher, wrapper)
    assert cell.told, cell.text
    wanted = hexed(ARGUMENTS)
    for one in cell.told:
        altered = [
            (bytes.fromhex(sent)[:60], bytes.fromhex(came)[:60])
            for sent, came in zip(wanted, one["arguments"])
            if sent != came
        ]
        assert altered == []
        assert len(one["arguments"]) == len(wanted)
        variables = {name: bytes.fromhex(value) for name, value in one["variables"].items()}
        assert variables == {name: value.encode() for name, value in VARIABLES.items()}
    assert not cell.touched, "a word was run as a command"
