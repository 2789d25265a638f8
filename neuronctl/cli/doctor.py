"""``neuronctl doctor``: what works on this machine and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence

import click

from neuronctl.cli.job_options import catalog_option
from neuronctl.common.datatypes import asdict

if TYPE_CHECKING:
    from neuronctl.doctor import Check
    from neuronctl.remote.connection import Remote


@click.command("doctor")
@catalog_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.doctor/1).")
def command(catalog: Optional[str], as_json: bool) -> int:
    """Check whether everything works on this machine.

    Nothing is changed and nothing is submitted. The exit code is 0 if nothing is wrong, else that
    of the first problem.
    """
    from neuronctl.doctor import examine

    return _show(examine(catalog), as_json)


def examine_remote(remote: Remote, request: Mapping[str, Any]) -> int:
    """Show the state of a connection, and what doctor finds on its cluster; return the exit code.

    request: what neuronctl on the cluster is sent; "words" is the command line to run there.
    """
    import json
    import os
    import time

    from neuronctl.cli.say import notify
    from neuronctl.common.restoring import NOT_RESTORED, restore
    from neuronctl.common.words import duration
    from neuronctl.doctor import BAD, GOOD, Check
    from neuronctl.remote.session import run

    words = [word for word in request["words"] if word != "--json"]
    start = time.monotonic()
    session = run(remote, {**request, "words": [*words, "--json"]}, notify)
    delay = int((time.monotonic() - start) * 1000)
    output: List[bytes] = []
    code = session.show(raw=True, write=output.append)
    age = duration(int(time.time() - os.stat(remote.socket).st_mtime))  # login made the socket
    checks = [
        Check("connection", GOOD, f"to {remote.address}, for {age}; answered in {delay} ms"),
        Check("python there", GOOD, f"{remote.python} ({remote.version}, {remote.machine})"),
        Check("projects", GOOD, f"{remote.name}:{remote.directory}"),
    ]
    try:
        checks += [restore(Check, data) for data in json.loads(b"".join(output))["checks"]]
    except NOT_RESTORED:  # the output is not doctor's JSON: a failure, even if the code is 0
        checks.append(Check("neuronctl there", BAD, f"ended with {code}", exit_code=code or 1))
    return _show(checks, "--json" in request["words"])


def _show(checks: Sequence[Check], as_json: bool) -> int:
    """Print the checks; return the exit code of the first problem."""
    from neuronctl.common.console import Column, print_json, print_table

    code = next((check.exit_code for check in checks if check.exit_code), 0)
    if as_json:
        print_json("neuronctl.doctor/1", {"checks": [asdict(check) for check in checks]})
        return code
    rows = []
    for check in checks:
        hint = f" -> {check.hint}" if check.hint else ""
        rows.append([check.name, check.state, check.words + hint])
    name = Column("WHAT", style="bold", no_wrap=True)
    print_table([name, Column("STATE", no_wrap=True), Column("SEEN")], rows)
    return code
