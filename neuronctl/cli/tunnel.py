"""``--on NAME serve``: a server on the cluster, and the tunnel to it over the open connection."""

from __future__ import annotations

import json
import re
import socket
import sys
from typing import Any, Dict, List, Tuple

from neuronctl.cli.say import notify
from neuronctl.common.console import print_json, print_line
from neuronctl.common.errors import INTERRUPTED, ConnectionLostError, NeuronctlError
from neuronctl.remote.connection import Remote, control, is_alive
from neuronctl.remote.session import Session

_WAIT = 'printf "\\036%s begin\\n" "$1"; sh -c "$0"; true'


def open_tunnel(remote: Remote, server: Session, *, as_json: bool, browse: bool) -> int:
    """Wait for the server, open its tunnel, print its address, and stay until it ends.

    server: ``serve --json`` there. browse: whether to open a browser. Returns the exit code.
    """
    parts: List[bytes] = []
    code = server.show(raw=True, write=parts.append)
    if code:
        return code
    try:
        answer = json.loads(b"".join(parts))
        port, address, wait = int(answer["port"]), str(answer["address"]), str(answer["wait"])
    except (ValueError, KeyError, TypeError):
        raise NeuronctlError(f"{remote.name} does not say where its server is") from None
    if not answer.get("url"):
        print_json("neuronctl.serve/2", answer) if as_json else _print_text(answer)
        return 0
    local, route = _forward(remote, address, port)
    try:
        url = str(answer["url"]).replace(f":{port}", f":{local}", 1)
        if as_json:
            print_json("neuronctl.serve/2", {**answer, "url": url, "local_port": local})
        else:
            print_line(f"{answer.get('recipe')} answers: job {answer.get('job_id')}")
            print_line(f"  open  {url}")
            _print_text(answer)
            notify("Ctrl-C closes the tunnel; the server continues until it is cancelled")
        sys.stdout.flush()  # a pipe gets it now, not when the server ends
        if browse and re.match(rf"http://(j[0-9]+\.)?(localhost|127\.0\.0\.1):{local}/", url):
            import webbrowser

            webbrowser.open(url)
        return _stay(remote, wait, str(answer.get("job_id")))
    finally:
        control(remote.socket, "cancel", "-L", route)


def _forward(remote: Remote, address: str, port: int) -> Tuple[int, str]:
    """Add a tunnel to the connection; return the local port and the tunnel as ssh names it."""
    if not re.fullmatch(r"[0-9A-Za-z.:_-]+", address) or not 0 < port < 65536:
        raise NeuronctlError(f"{remote.name} names no address for its server: {address!r}")
    host, local = f"[{address}]" if ":" in address else address, port
    for _ in range(3):
        route = f"127.0.0.1:{local}:{host}:{port}"
        result = control(remote.socket, "forward", "-L", route)
        if result.returncode == 0:
            return local, route
        with socket.socket() as free:  # the server's own port may be taken here
            free.bind(("127.0.0.1", 0))
            local = int(free.getsockname()[1])
    raise NeuronctlError(f"no tunnel to {remote.name}: {result.stderr.strip()}")


def _stay(remote: Remote, wait: str, job: str) -> int:
    """Wait until the server ends; its own command on the cluster reports that."""
    again = f"neuronctl --on {remote.name} serve connect {job}"
    # At the end it kills its parent, which must be a shell, not the sshd of the connection.
    session = Session(remote, ["sh", "-c", _WAIT, wait])
    try:
        session.process.wait()
    except KeyboardInterrupt:
        session.loss()
        notify(f"the tunnel is closed; to open it again: {again}")
        return INTERRUPTED
    session.end()
    if not is_alive(remote.socket):
        raise ConnectionLostError(
            f"the connection to {remote.name} was lost, and the tunnel with it",
            f"neuronctl login {remote.name}, then: {again}",
        )
    notify(f"the server has ended, and its tunnel: neuronctl --on {remote.name} why {job}")
    return 0


def _print_text(answer: Dict[str, Any]) -> None:
    for line in filter(None, str(answer.get("text") or "").split("\n")):
        print_line(f"  {line}".rstrip())
