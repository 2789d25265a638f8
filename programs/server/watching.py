"""Run a server until it ends, watch it, and note its state."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

from asking import bind_port, find_free_port, find_own_address, find_owners, name_users, try_text
from places import make_private_logs, make_temporary, write_file
from processes import exit_code, signal_tree
from use import Use

EVERY = 3  # seconds between two checks of a server that answers
STRANGER_EVERY = 60  # seconds between two requests without the token, which a server may log
STARTS = 3  # the most starts if other processes take the port
PATIENCE = 10  # seconds for an answer of a server that has answered before
CHECKING = 4  # the same for check(), for which a user waits, and which srun has to start
KEPT = 7 * 24 * 3600  # seconds for which the note of an ended server is kept
WORDS = 4000  # bytes of a file in FOLDER that become part of the note
ENDING = 20  # seconds for a server to end; Slurm waits for 30 by default

TUNNEL = """missed=0 before=
while [ "$missed" -lt 5 ]; do  # the beat changes every second
    sleep 1
    beat=$(cat "${0%tunnel}beat" 2>/dev/null) || break
    missed=$((missed + 1))
    [ "$beat" = "$before" ] || missed=0 before=$beat
done
kill "$PPID"
"""
"""What runs at the far end of a tunnel; its parent is the user's own sshd process."""


def say(words):
    """Write to the log."""
    print(words, file=sys.stderr, flush=True)


class Server:
    """The server of this job, and the note of its state.

    serve: the directory of all servers' folders. recipe: name, guard, ready, alive, used,
    ready_within, and open of the recipe; address, or "" for the node's; and idle: seconds without
    use after which the server ends, or 0 for never.
    """

    def __init__(self, serve, recipe):
        self.recipe, self.serve = recipe, serve
        self.job = os.environ["SLURM_JOB_ID"]
        self.folder = os.path.join(serve, self.job)
        self.temporary = ""  # the directory for temporary files
        node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
        self.address = recipe["address"] or find_own_address(node)
        self.port = 0  # 0: none yet
        self.token = os.urandom(24).hex()
        self.process = None  # there is none yet
        self.ending = None  # once this program ends the server: why, and the job's exit code
        self.has_listened = self.port_is_taken = False
        self.lock = threading.Lock()  # held while the note is written
        self.has_stopped = threading.Event()
        self.last_words = ""  # the last line of errors of the recipe's text that ran last
        self.note = {
            "recipe": recipe["name"],
            "job": int(self.job),
            "run": int(os.environ.get("SLURM_RESTART_COUNT", "0")),
            "name": os.environ.get("SLURM_JOB_NAME", ""),
            "node": node,
            "address": self.address,
            "localhost": f"j{self.job}.localhost",
            "token": self.token,
            "pid": os.getpid(),
            "python": sys.executable,
            "program": os.path.dirname(os.path.abspath(__file__)),
            "alive": recipe["alive"] or recipe["ready"],
            "state": "starting",
            "words": "",
            "user": "",
            "since": 0,
        }

    def write_note(self, **more):
        """Note the server's state and the time; each file that a recipe wrote becomes a value."""
        with self.lock:
            self.note.update(more, asked=time.time(), port=self.port)
            values = {}
            names = set(filter(str.isidentifier, os.listdir(self.folder)))
            for name in names - {"note", "tunnel", "used", "beat"}:
                with open(os.path.join(self.folder, name), errors="replace") as file:
                    values[name] = file.read(WORDS).strip()
            self.note["values"] = values
            write_file(self.folder, "note", json.dumps(self.note) + "\n")

    def environment(self):
        """Return the environment of the server's script and of a recipe's texts."""
        environment = {**os.environ, **describe_server(self.note, self.folder)}
        environment.update(NEURONCTL_SERVER=self.job, SERVE=self.serve, TMPDIR=self.temporary)
        environment["TOKEN"] = self.token  # the note has none while the job ends
        for name in ("SINGULARITY_BIND", "APPTAINER_BIND"):
            places = (os.environ.get(name), self.serve, self.temporary)
            environment[name] = ",".join(filter(None, places))
        return environment

    def succeeds(self, text, **more):
        """Return True if a recipe's text succeeds, with these further variables; set last_words."""
        success, self.last_words = try_text(text, {**self.environment(), **more})
        return success

    def end(self, words, code):
        """End the server, and then the job with this exit code. words: why."""
        if self.runs():
            self.ending = words, code
            say("serve: " + words)
            self.stop()

    def stop(self):
        """Ask the server to end, and kill it if it does not."""
        signal_tree(self.process.pid, signal.SIGTERM)
        kill = threading.Timer(ENDING, signal_tree, (self.process.pid, signal.SIGKILL))
        kill.daemon = True
        kill.start()

    def keeps_strangers_out(self, text):
        """Return True if a recipe's text fails without the token; otherwise, end the server."""
        if self.recipe["open"]:
            return True
        wrong = os.urandom(24).hex()
        for without in ("", wrong):  # first send the wrong token, then leave it out
            if self.succeeds(text, TOKEN=wrong, STRANGER="stranger", WITHOUT=without):
                name = self.recipe["name"]
                self.end(f"{name} lets everybody in: it answers without the token", 1)
                return False
        return True

    def obey_recipe(self):
        """End the server if the recipe's text has called end_server (see PRELUDE)."""
        with contextlib.suppress(OSError, ValueError), open(self.folder + "/.end") as file:
            code, words = file.read().split("\n", 1)
            self.end(words.strip(), int(code))

    def runs(self):
        """Return True while the server runs and this program has not ended it."""
        return self.process.poll() is None and self.ending is None

    def wait_until_ready(self):
        """Return True once the server has answered, and has refused a request without the token.

        Return False if it has ended, or if another user has its port.
        """
        begun = time.time()
        within = self.recipe["ready_within"]
        while self.runs():
            users = find_owners(self.address, self.port)
            if users - {os.getuid()}:
                say(f"serve: port {self.port} belongs to {name_users(users)}")
                self.port_is_taken = True
                signal_tree(self.process.pid, signal.SIGTERM)
                return False
            if users:
                self.has_listened = True
                if self.succeeds(self.recipe["ready"]):
                    return self.keeps_strangers_out(self.recipe["ready"])
                words = self.last_words
            else:
                words = f"nothing listens on {self.environment()['ENDPOINT']}"
            if time.time() - begun > within:
                name = self.recipe["name"]
                self.end(f"{name} did not answer within {within:g} s: {words}", 1)
            self.write_note(words=words)
            self.obey_recipe()
            self.has_stopped.wait(1 if time.time() - begun < 60 else EVERY)
        return False

    def watch(self):
        """Watch the server while it runs, and end it if this program fails."""
        try:
            if self.wait_until_ready():
                self.write_note(since=time.time(), **find_state(self.note, self.environment()))
                place = f"port {self.port} of {self.note['node']}"
                say(f"serve: {self.recipe['name']} answers on {place}")
                self.look_after()
        except Exception:  # without a watcher, nobody would know the server's state
            if self.process.poll() is None:
                traceback.print_exc()
                self.end("neuronctl's watcher failed, so the server ends", 1)

    def look_after(self):
        """Write the note, and end the server if it is idle or open to strangers."""
        used_at = stranger_at = time.time()
        use = Use(self)
        idle = self.recipe["idle"]
        while self.runs():
            self.write_note(**find_state(self.note, self.environment()))
            if time.time() - stranger_at > STRANGER_EVERY and "$TOKEN" in self.note["alive"]:
                stranger_at = time.time()
                self.keeps_strangers_out(self.note["alive"])
            if idle and use.is_seen():
                used_at = time.time()
            if idle and time.time() - used_at >= idle:
                self.end(f"nobody used it for {idle} s, so it ends", 0)
            self.obey_recipe()
            self.has_stopped.wait(EVERY)

    def start(self, script):
        """Run the script; return its exit code, or None if another process has taken the port."""
        self.port = find_free_port(self.address)
        if not self.port:
            say(f"serve: {self.note['node']} has no free port")
            return 1
        self.has_listened = self.port_is_taken = False
        self.has_stopped = threading.Event()
        self.write_note()
        self.process = subprocess.Popen([script], env=self.environment())
        if self.ending is not None:  # TERM came before there was a process
            self.stop()
        watcher = threading.Thread(target=self.watch, daemon=True)
        watcher.start()
        while self.process.poll() is None:
            with contextlib.suppress(OSError), open(self.folder + "/beat", "w") as file:
                file.write(str(time.time()))  # a tunnel ends without it
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
        self.has_stopped.set()
        watcher.join(2)
        if not self.has_listened and not bind_port(self.address, self.port):
            self.port_is_taken = True  # by a process that came before the server
        if self.port_is_taken and self.ending is None:
            return None
        return exit_code(self.process.returncode)

    def run(self, script):
        """Run the server until it ends; return the exit code of the job."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder, 0o700)
        write_file(self.folder, "tunnel", TUNNEL)
        self.temporary = make_temporary()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self.pass_signal_on)
        words, code = self.explain_ending(self.start_on_free_port(script))
        self.clear(words)
        return code

    def start_on_free_port(self, script):
        """Run the script, up to STARTS times if its port is taken; return its exit code."""
        for number in range(STARTS):
            if number:
                say(f"serve: port {self.port} is taken; trying another one")
            code = self.start(script)
            if code is not None:
                return code
        return 1

    def explain_ending(self, code):
        """Return why the server ended, and the exit code of the job. code: the server's."""
        if self.ending:
            return self.ending
        if not code:
            return "", 0
        words = f"{self.recipe['name']} ended with exit code {code}"
        words += "" if self.note["since"] else ", and never answered"
        say("serve: " + words)
        return words, code

    def pass_signal_on(self, number, frame):
        """Pass a signal of the job on to the server; on TERM, make sure that it ends."""
        if number == signal.SIGTERM:
            self.ending = self.ending or ("Slurm ended its job", 143)
            self.note.pop("token", None)
        if self.process is None or self.process.poll() is not None:
            return
        if number == signal.SIGTERM:
            self.stop()
        else:
            signal_tree(self.process.pid, number)

    def clear(self, words):
        """Remove the server's files, and write the last note. words: why it ended."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder, 0o700)
        dropped = ("token", "values", "pid", "alive")
        note = {name: value for name, value in self.note.items() if name not in dropped}
        note.update(state="ended", words=words, asked=time.time())
        write_file(self.folder, "note", json.dumps(note) + "\n")


def describe_server(note, folder):
    """Return the variables that describe the server to a recipe's text."""
    names = ("node", "address", "port", "localhost", "token", "program")
    variables = {name.upper(): str(note.get(name, "")) for name in names}
    place = "[{ADDRESS}]:{PORT}" if ":" in note["address"] else "{ADDRESS}:{PORT}"
    return dict(variables, FOLDER=folder, ENDPOINT=place.format(**variables))


def find_state(note, environment, patience=PATIENCE):
    """Return state, words, and user for the note of a server that has answered before."""
    users = find_owners(note["address"], int(environment["PORT"]))
    if users != {os.getuid()}:
        words = f"port {environment['PORT']} belongs to {name_users(users)}"
        return {"state": "silent", "words": words, "user": name_users(users)}
    answers, words = try_text(note["alive"], environment, patience)
    state = "answers" if answers else "silent"
    return {"state": state, "words": "" if answers else words, "user": name_users(users)}


def check(folder):
    """Check the server of this job on its node; print its note as it is now, without the token."""
    with open(os.path.join(folder, "note")) as file:
        note = json.load(file)
    try:
        with open(f"/proc/{note['pid']}/environ", "rb") as file:
            is_watched = f"SLURM_JOB_ID={note['job']}\0".encode() in file.read()
    except (OSError, KeyError):
        is_watched = False
    if is_watched and note["state"] in ("answers", "silent"):
        environment = dict(os.environ, **describe_server(note, folder))
        note.update(find_state(note, environment, CHECKING))
    elif not is_watched and note["state"] != "ended":
        note.update(state="starting", words="this run's server has not begun", since=0)
    note["asked"] = time.time()
    print(json.dumps({name: value for name, value in note.items() if name != "token"}))


def run(script):
    """Run the batch script's server until it ends; return the exit code of the job, or an error."""
    make_private_logs()
    program = os.path.dirname(os.path.abspath(__file__))
    serve = os.path.dirname(program)
    with open(os.path.join(program, "recipe.json")) as file:
        recipe = json.load(file)
    try:
        remove_old(serve)
        return Server(serve, recipe).run(script)
    except OSError as error:
        return f"serve: cannot write {serve}: {error}; set XDG_STATE_HOME to another directory"


def remove_old(serve):
    """Remove the folders of servers whose job ended long ago, or was killed."""
    for name in filter(str.isdigit, os.listdir(serve)):
        folder = os.path.join(serve, name)
        with contextlib.suppress(OSError):
            if time.time() - os.stat(folder).st_mtime > KEPT:
                shutil.rmtree(folder)
