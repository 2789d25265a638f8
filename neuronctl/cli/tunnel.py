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

# The mark (RS, "$1", "begin") tells the session that the command has begun; "$0" is the command.
_WAIT = 'printf "\\036%s begin\\n" "$1"; sh -c "$0"; true'


def open_tunnel(remote: Remote, server: Session, *, as_json: bool, browse: bool) -> int:
    """Open a tunnel to a server that answers, and stay until the server ends; return the exit code.

    server: ``serve --json`` on the cluster. browse: whether to open a browser.
    """
    parts: List[bytes] = []
    code = server.show(raw=True, write=parts.append)  # until it answers
    if code:
        return code
    try:
        answer = json.loads(b"".join(parts))
        port, address, wait = int(answer["port"]), str(answer["address"]), str(answer["wait"])
    except (ValueError, KeyError, TypeError):
        raise NeuronctlError(f"{remote.name} does not say where its server is") from None
    if not answer.get("url"):  # the recipe needs no tunnel
        if as_json:
            print_json("neuronctl.serve/2", answer)
        else:
            _print_text(answer)
        return 0
    local_port, route = _forward(remote, address, port)
    try:
        url = str(answer["url"]).replace(f":{port}", f":{local_port}", 1)
        if as_json:
            print_json("neuronctl.serve/2", {**answer, "url": url, "local_port": local_port})
        else:
            print_line(f"{answer.get('recipe')} answers: job {answer.get('job_id')}")
            print_line(f"  open  {url}")
            _print_text(answer)
            notify("Ctrl-C closes the tunnel; the server continues until it is cancelled")
        sys.stdout.flush()  # a pipe gets it now, not when the server ends
        # The cluster names the URL: open no other page.
        tunnel_url = rf"http://(j[0-9]+\.)?(localhost|127\.0\.0\.1):{local_port}/"
        if browse and re.match(tunnel_url, url):
            import webbrowser

            webbrowser.open(url)
        return _stay(remote, wait, str(answer.get("job_id")))
    finally:
        control(remote.socket, "cancel", "-L", route)


def _forward(remote: Remote, address: str, port: int) -> Tuple[int, str]:
    """Add a tunnel to the connection; return the local port and the tunnel as ssh names it."""
    if not re.fullmatch(r"[0-9A-Za-z.:_-]+", address) or not 0 < port < 65536:
        raise NeuronctlError(f"{remote.name} names no address for its server: {address!r}")
    host = f"[{address}]" if ":" in address else address
    local_port = port
    for _ in range(3):
        route = f"127.0.0.1:{local_port}:{host}:{port}"
        result = control(remote.socket, "forward", "-L", route)
        if result.returncode == 0:
            return local_port, route
        with socket.socket() as listener:  # the server's own port may be taken here
            listener.bind(("127.0.0.1", 0))
            local_port = int(listener.getsockname()[1])
    raise NeuronctlError(f"no tunnel to {remote.name}: {result.stderr.strip()}")


def _stay(remote: Remote, wait: str, job: str) -> int:
    """Wait until the server ends; return the exit code. wait: the command there that waits."""
    again = f"neuronctl --on {remote.name} serve connect {job}"
    # The command ends by killing its parent: this must be a shell, not the connection's sshd.
    session = Session(remote, ["sh", "-c", _WAIT, wait])
    try:
        session.process.wait()
    except KeyboardInterrupt:
        session.loss()  # ends ssh
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
