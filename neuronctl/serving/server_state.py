"""The state of a server, and the way to reach it: its job's note, and commands for the user.

``note`` in a folder of the job's own is the only file that is read; ``programs/server`` writes it
every few seconds. That program tests whether the server answers, with the commands ``ready`` and
``alive`` of its recipe (recipes.py). Nobody here sends a server its token.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from string import Template
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from neuronctl.catalog.cluster import Cluster
from neuronctl.common.datatypes import dataclass, field, replace
from neuronctl.common.errors import NoSuchJobError, SlurmError
from neuronctl.common.files import read_private
from neuronctl.common.paths import state_dir
from neuronctl.common.restoring import NOT_RESTORED, restore
from neuronctl.common.shell import quote
from neuronctl.common.users import login_name
from neuronctl.serving.recipes import load
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_states import PENDING, RUNNING
from neuronctl.slurm.srun import on_each_node, split_by_task
from neuronctl.tracking.endings import outcome_words
from neuronctl.tracking.follow import JobWatch
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import mine, nodes_of

MARK = "NEURONCTL_SERVER"
"""The variable by which a server's script knows that the program runs it."""

BY_SLURM = "Slurm ended its job"
"""The words of the note of a job that Slurm cancelled or requeued, or whose time was over."""

_KEPT = 7 * 86400  # seconds for which an ended server is listed
_EVERY = 0.5  # seconds after which a job's note is read again
_FRESH = 5.0  # seconds for which a note counts; it is written every 3
_PATIENCE = 10.0  # seconds for a node's answer
STARTING, ANSWERS, SILENT, ENDED, UNKNOWN = "starting", "answers", "silent", "ended", "not known"


@dataclass(frozen=True)
class Note:
    """What a job has noted about its server; times are epoch seconds by its node's clock."""

    job: int
    run: int
    name: str
    recipe: str
    node: str
    address: str
    port: int
    localhost: str
    state: str  # STARTING, ANSWERS, SILENT (it answered before, and does not now), ENDED, UNKNOWN
    words: str  # why it is in this state
    user: str  # who owns the port
    asked: float  # when its state was checked
    since: float  # when it was ready; 0: never
    token: str = ""
    pid: int = 0  # the process of the program beside the server
    python: str = ""
    program: str = ""
    values: Mapping[str, str] = field(default_factory=dict)  # noted by the recipe

    @property
    def place(self) -> str:
        """Return the address and the port, as ssh takes them; "" without a port."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}" if self.port else ""

    @property
    def summary(self) -> str:
        """Return the state in words: ``jupyter does not answer: port 31943 belongs to kim``."""
        verbs = {STARTING: "starts", ANSWERS: "answers", SILENT: "does not answer"}
        verb = verbs.get(self.state, f"is {self.state}" if self.state == UNKNOWN else "ended")
        if self.words.startswith(f"{self.recipe} "):
            return self.words
        return f"{self.recipe} {verb}" + (f": {self.words}" if self.words else "")


@dataclass(frozen=True)
class Connection:
    """How to reach a server."""

    tunnel: str  # the ssh command to type; "": without a URL, none is needed
    wait: str  # the command at the far end of the tunnel, which ends the tunnel with the server
    url: str  # the address to open; "": none
    text: str  # the instructions to show


def servers_dir() -> str:
    """Return the directory with a folder for each server job of this cluster."""
    cluster = re.sub(r"[^A-Za-z0-9_-]", "_", local_cluster() or "-")
    return os.path.join(state_dir(), "serve", cluster)


def list_servers() -> List[int]:
    """Return the ids of the jobs that are, or recently were, servers."""
    with contextlib.suppress(OSError):
        names = os.listdir(servers_dir())
        return sorted(int(name) for name in names if re.fullmatch("[0-9]+", name))
    return []


def read_note(job: int) -> Optional[Note]:
    """Return a job's note; None without a complete one."""
    with contextlib.suppress(OSError):
        return parse_note(read_private(os.path.join(servers_dir(), str(job), "note")))
    return None


def parse_note(content: bytes) -> Optional[Note]:
    """Parse a note; None for other text, or impossible times."""
    try:
        data = json.loads(content)
        note = restore(Note, {name: data[name] for name in Note.__annotations__ if name in data})
        return note if all(0 <= at < 1 << 40 for at in (note.since, note.asked)) else None
    except (*NOT_RESTORED, RecursionError):
        return None


def look_at(status: JobStatus) -> Optional[Note]:
    """Return the present state of a running job's server; None if the job has noted nothing.

    A note of the last _FRESH seconds counts; otherwise the node is asked, without the token.
    """
    note = read_note(status.id.job)
    if note is None:
        return None
    is_fresh = note.state == ENDED or time.time() - note.asked < _FRESH
    if is_fresh and note.asked >= (status.start or 0):  # in this run
        return note
    folder = os.path.join(servers_dir(), str(note.job))
    command = [note.python, "-EsB", os.path.join(note.program, "main.py"), "check", folder]
    try:
        answer = on_each_node(note.job, nodes_of(status)[:1], command, _PATIENCE)
    except (SlurmError, NoSuchJobError) as error:
        last_note = read_note(note.job) or note
        if last_note.state == ENDED:
            return last_note
        return replace(note, state=UNKNOWN, words=error.message)
    lines_of_node = split_by_task(answer).get(0, ())
    new_note = parse_note("\n".join(lines_of_node).encode())
    if new_note is None:
        return replace(note, state=UNKNOWN, words=f"{note.node} does not say")
    if (new_note.pid, new_note.port) != (note.pid, note.port):  # another server and token
        return replace(new_note, state=STARTING)
    return replace(new_note, token=note.token)


def find_running_servers(jobs: Iterable[JobStatus]) -> Dict[int, Note]:
    """Return the notes of the servers in the running jobs among these, by job."""
    ids = set(list_servers())
    running = [job for job in jobs if job.state == RUNNING and job.id.job in ids]
    return {note.job: note for note in map(look_at, running) if note is not None}


def find_all_servers() -> List[Note]:
    """Return a note for each server in the queue, and for each that ended in the last week."""
    recent = mine(since=int(time.time()) - _KEPT).sure().jobs
    jobs = {job.id.job: job for job in recent if job.record and MARK in job.record.draft.script}
    notes = find_running_servers(jobs.values())
    for number in {*list_servers(), *jobs} - set(notes):
        note = _note_at_rest(number, jobs.get(number))
        if note is not None:
            notes[number] = note
    return [notes[number] for number in sorted(notes)]


def _note_at_rest(number: int, job: Optional[JobStatus]) -> Optional[Note]:
    """Return the note of a job that does not run, with Slurm's state; None: both are unknown."""
    note = read_note(number)
    if note is None:
        return None if job is None else _first_note(job)
    if job is not None and job.state == PENDING:
        return replace(note, state=STARTING, words="it waits for its next run")
    if note.state == ENDED and note.words != BY_SLURM:
        return note
    if job is not None and job.ended:
        return replace(note, state=ENDED, words=outcome_words(job))
    return replace(note, state=ENDED, words="it was killed with its job")


def _first_note(job: JobStatus) -> Note:
    """Return a note for a job that has written none: it has not begun, or never did."""
    return Note(
        job=job.id.job,
        run=0,
        name=job.name,
        recipe=job.name,
        node="",
        address="",
        port=0,
        localhost="",
        state=ENDED if job.ended else STARTING,
        words=outcome_words(job),
        user="",
        asked=0,
        since=0,
    )


def wait_for_server(
    watch: JobWatch, tell: Callable[[str], None], log: Callable[[], None]
) -> Optional[Note]:
    """Wait until a server has started, or is silent; return its note, or None if its job has ended.

    tell: gets the job's state, repeatedly. log: shows what the server has written.
    """
    due = 0.0  # when to ask Slurm again
    state = ""
    while True:
        if time.monotonic() >= due:
            lines = watch.poll()
            state = lines[-1] if lines else state
            due = time.monotonic() + watch.pause
        log()
        if watch.ended:
            return None
        look_begins = time.monotonic()
        note = None if watch.waiting else look_at(watch.statuses[0])
        if note is not None and note.state in (ANSWERS, SILENT, UNKNOWN):
            return note
        if watch.waiting or (note is not None and note.state == ENDED):
            tell(state)
        else:
            why = f": {note.words}" if note is not None and note.words else ""
            tell(f"{state}; waiting for the server's first answer{why}")
        # Ask a node less often if it had to be asked.
        time.sleep(max(_EVERY, 2 * (time.monotonic() - look_begins)))


def connect(note: Note, cluster: Cluster) -> Connection:
    """Return the commands and the address for reaching a server from the user's machine."""
    recipe = load(note.recipe)
    user = login_name()
    on_loopback = note.address.startswith("127.")
    login = f"{user}@{cluster.login.host or socket.getfqdn()}"
    values: Dict[str, Any] = dict(note.values, token=note.token, localhost=note.localhost)
    values.update(recipe=note.recipe, job=note.job, node=note.node, port=note.port)
    values.update(address=note.address, host=note.address, user=user, login=login)
    values.update(cluster=cluster.name, name=re.sub(r"[^\w.-]+", "-", note.name))
    values.update(jump=f"{login},{user}@{note.node}" if on_loopback else login)
    url = Template(recipe.url).safe_substitute(values)
    script = os.path.join(servers_dir(), str(note.job), "tunnel")
    home = os.path.expanduser("~") + os.sep  # where ssh starts a command
    shown_script = script[len(home) :] if script.startswith(home) else script
    wait = f"exec sh {quote(shown_script)}"
    hosts = f"-J {login} {user}@{note.node}" if on_loopback else login
    options = f"-S none -o ExitOnForwardFailure=yes -L {note.port}:{note.place}"
    return Connection(
        tunnel=f"ssh {options} {hosts} {quote(wait)}" if url else "",
        wait=wait,
        url=url,
        text=Template(recipe.print).safe_substitute(values).rstrip("\n"),
    )
