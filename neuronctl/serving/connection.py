"""How a server is reached: what its job has noted, and what to type on one's own machine.

Each value is a file in a folder of the job's own, which templates/serve.sh makes and removes:
``node``, ``address``, ``port``, ``token``, what a recipe adds, and at last ``ready``.
"""

from __future__ import annotations

import os
import re
import socket
import time
from string import Template
from typing import Callable, Dict, Optional

from neuronctl.catalog.local_cluster import local_cluster
from neuronctl.catalog.model import Cluster
from neuronctl.common.files import read_private
from neuronctl.common.frozen import dataclass
from neuronctl.common.paths import state_dir
from neuronctl.common.users import login_name
from neuronctl.serving.recipes import Recipe, load
from neuronctl.tracking.follow import JobWatch

_EVERY = 0.5  # seconds between two looks at a job's folder
_NOTED = {"recipe", "job", "name", "node", "address", "port", "token"}


@dataclass(frozen=True)
class Connection:
    """A server that answers. tunnel, url, text: what to type, open, and read; "" if there is none.

    reachable: whether this machine reaches its port, where the tunnel begins.
    """

    job_id: int
    name: str
    recipe: str
    node: str
    address: str
    port: int
    token: str
    tunnel: str
    url: str
    text: str
    reachable: bool


def folders() -> str:
    """Return the directory with a folder for each job of this cluster that is a server."""
    cluster = re.sub(r"[^A-Za-z0-9_-]", "_", local_cluster() or "-")
    return os.path.join(state_dir(), "serve", cluster)


def is_server(job: int) -> bool:
    """Return True if a job that runs has begun to be a server."""
    return os.path.isdir(os.path.join(folders(), str(job)))


def wait_for_server(watch: JobWatch, tell: Callable[[str], None]) -> Optional[Dict[str, str]]:
    """Return what a job has noted once its server answers; None if the job has ended.

    tell: hears of the job's state, again and again.
    """
    due, state = 0.0, ""
    while True:
        if time.monotonic() >= due:
            state = (watch.poll() or [state])[-1]
            due = time.monotonic() + watch.pause
        if watch.ended:
            return None
        noted = None if watch.waiting else read_notes(watch.job.job)
        if noted is not None:
            return noted
        tell(state if watch.waiting else f"{state}; waiting for the server's first answer")
        time.sleep(_EVERY)


def read_notes(job: int) -> Optional[Dict[str, str]]:
    """Return what a job has noted, if its server answers."""
    folder = os.path.join(folders(), str(job))
    try:
        names = os.listdir(folder)
        if "ready" not in names:
            return None
        contents = {
            name: read_private(os.path.join(folder, name))
            for name in filter(str.isidentifier, names)
        }
    except OSError:
        return None
    noted = {name: text.decode("utf-8", "replace").strip() for name, text in contents.items()}
    whole = {*noted} >= _NOTED and re.fullmatch(
        "[0-9]{1,10} [0-9]{1,5}", f"{noted['job']} {noted['port']}"
    )
    return noted if whole else None


def connection(noted: Dict[str, str], cluster: Cluster) -> Connection:
    """Return how to reach a server. noted: by its job."""
    recipe: Recipe = load(noted["recipe"])
    node, address, port, user = noted["node"], noted["address"], noted["port"], login_name()
    login = f"{user}@{cluster.login.host or socket.getfqdn()}"
    on_loopback = address.startswith("127.")
    # The node's name, if it leads from here to where the server listens.
    reached = [host for host in (node, address) if not on_loopback and _answers(host, int(port))]
    host = "localhost" if on_loopback else (*reached, node)[0]
    values = dict(noted, host=host, user=user, login=login, cluster=cluster.name)
    values["jump"] = f"{login},{user}@{node}" if on_loopback else login
    url = Template(recipe.url).safe_substitute(values)
    way = f"-J {login} {user}@{node}" if on_loopback else login
    tunnel = f"ssh -N -L {port}:{host}:{port} {way}" if url else ""
    return Connection(
        job_id=int(noted["job"]),
        name=noted["name"],
        recipe=recipe.name,
        node=node,
        address=address,
        port=int(port),
        token=noted["token"],
        tunnel=tunnel,
        url=url,
        text=Template(recipe.print).safe_substitute(values).rstrip("\n"),
        reachable=on_loopback or bool(reached),
    )


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=3).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
