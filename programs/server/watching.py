"""Run a server until it ends, look after it, and note how it is."""

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

from asking import binds, free_port, own_address, owners, try_text, user_names
from places import make_private_logs, make_temporary, write_file
from processes import exit_code, signal_tree
from use import Use

EVERY = 3  # seconds between two looks at a server that answers
STRANGER_EVERY = 60  # seconds between two requests without the token, which a server may log
STARTS = 3  # at most, while somebody else takes the port
PATIENCE = 10  # seconds for a server's answer, once it has answered
CHECKING = 4  # seconds for it if somebody waits for the answer, with srun's own start
KEPT = 7 * 24 * 3600  # seconds for which the note of a server that ended stays
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
    """The server of this job, and the note of how it is.

    recipe: name, guard, ready, alive, used, ready_within, open; and address, "" for the node's,
    and idle, in seconds, 0 for no end.
    """

    def __init__(self, serve, recipe):
        self.recipe, self.serve = recipe, serve
        self.job = os.environ["SLURM_JOB_ID"]
        self.folder = os.path.join(serve, self.job)
        node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
        self.address, self.port = recipe["address"] or own_address(node), 0
        self.token = os.urandom(24).hex()
        self.process, self.ending, self.listened, self.taken = None, None, False, False
        self.lock, self.stopped, self.last_words = threading.Lock(), threading.Event(), ""
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
        """Note how the server is, and when that was; a file that a recipe made becomes a value."""
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
        """Return what the server's script, and a recipe's text, get in their environment."""
        own = dict(NEURONCTL_SERVER=self.job, SERVE=self.serve, TMPDIR=self.temporary)
        environment = {**os.environ, **note_variables(self.note, self.folder), **own}
        environment["TOKEN"] = self.token  # the note has none while the job ends
        for name in ("SINGULARITY_BIND", "APPTAINER_BIND"):
            places = (os.environ.get(name), self.serve, self.temporary)
            environment[name] = ",".join(filter(None, places))
        return environment

    def holds(self, text, **more):
        """Return True if a recipe's text succeeds; its last words are kept."""
        holds, self.last_words = try_text(text, {**self.environment(), **more})
        return holds

    def end(self, words, code):
        """End the server, and the job with this exit code."""
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
        """Return True if a recipe's text fails without the token; otherwise the server ends."""
        wrong = os.urandom(24).hex()
        lets_in = not self.recipe["open"] and any(
            self.holds(text, TOKEN=wrong, STRANGER="stranger", WITHOUT=without)
            for without in ("", wrong)
        )
        if lets_in:
            self.end(f"{self.recipe['name']} lets everybody in: it answers without the token", 1)
        return not lets_in

    def obey_recipe(self):
        """End the server if the recipe's text has called end_server."""
        with contextlib.suppress(OSError, ValueError), open(self.folder + "/.end") as file:
            code, words = file.read().split("\n", 1)
            self.end(words.strip(), int(code))

    def runs(self):
        """Return True while the server runs and nothing ended it."""
        return self.process.poll() is None and self.ending is None

    def wait_until_ready(self):
        """Return True once the server has answered, and has refused who has no token."""
        begun, within = time.time(), self.recipe["ready_within"]
        while self.runs():
            users = owners(self.address, self.port)
            if users - {os.getuid()}:
                say(f"serve: port {self.port} belongs to {user_names(users)}")
                self.taken = True
                signal_tree(self.process.pid, signal.SIGTERM)
                return False
            self.listened = self.listened or bool(users)
            if users and self.holds(self.recipe["ready"]):
                return self.keeps_strangers_out(self.recipe["ready"])
            nothing = f"nothing listens on {self.environment()['ENDPOINT']}"
            words = self.last_words if users else nothing
            if time.time() - begun > within:
                name = self.recipe["name"]
                self.end(f"{name} did not answer within {within:g} s: {words}", 1)
            self.write_note(words=words)
            self.obey_recipe()
            self.stopped.wait(1 if time.time() - begun < 60 else EVERY)
        return False

    def watch(self):
        """Look after the server as long as it lives; an error of ours ends it."""
        try:
            if self.wait_until_ready():
                self.write_note(since=time.time(), **look(self.note, self.environment()))
                place = f"port {self.port} of {self.note['node']}"
                say(f"serve: {self.recipe['name']} answers on {place}")
                self.look_after()
        except Exception:  # nobody would know how it is
            if self.process.poll() is None:
                traceback.print_exc()
                self.end("neuronctl's watcher failed, so the server ends", 1)

    def look_after(self):
        """Write the note, and end the server if it is idle or open to strangers."""
        used = asked = time.time()
        use, idle = Use(self), self.recipe["idle"]
        while self.runs():
            self.write_note(**look(self.note, self.environment()))
            if time.time() - asked > STRANGER_EVERY and "$TOKEN" in self.note["alive"]:
                asked = time.time()
                self.keeps_strangers_out(self.note["alive"])
            if idle and use.is_seen():
                used = time.time()
            if idle and time.time() - used >= idle:
                self.end(f"nobody used it for {idle} s, so it ends", 0)
            self.obey_recipe()
            self.stopped.wait(EVERY)

    def start(self, script):
        """Run the script; return its exit code, or None to start it again on another port."""
        self.port = free_port(self.address)
        if not self.port:
            say(f"serve: {self.note['node']} has no free port")
            return 1
        self.listened = self.taken = False
        self.stopped = threading.Event()
        self.write_note()
        self.process = subprocess.Popen([script], env=self.environment())
        watcher = threading.Thread(target=self.watch, daemon=True)
        watcher.start()
        while self.process.poll() is None:
            with contextlib.suppress(OSError), open(self.folder + "/beat", "w") as file:
                file.write(str(time.time()))  # a tunnel ends without it
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
        self.stopped.set()
        watcher.join(2)
        taken = self.taken or not (self.listened or binds(self.address, self.port))
        return None if taken and self.ending is None else exit_code(self.process.returncode)

    def run(self, script):
        """Run the server until it ends; return the exit code of the job."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder, 0o700)
        write_file(self.folder, "tunnel", TUNNEL)
        self.temporary = make_temporary()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self.pass_signal_on)
        code = None
        for start in range(STARTS):
            if start:
                say(f"serve: port {self.port} is taken; trying another one")
            code = self.start(script)
            if code is not None:
                break
        words, code = self.ending or ("", 1 if code is None else code)
        if code and not words:
            words = f"{self.recipe['name']} ended with exit code {code}"
            words += "" if self.note["since"] else ", and never answered"
            say("serve: " + words)
        self.clear(words)
        return code

    def pass_signal_on(self, number, frame):
        """End the server with the job's signal."""
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
        """Leave of the server only the note of how it ended."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder, 0o700)
        gone = ("token", "values", "pid", "alive")
        note = {name: value for name, value in self.note.items() if name not in gone}
        note.update(state="ended", words=words, asked=time.time())
        write_file(self.folder, "note", json.dumps(note) + "\n")


def note_variables(note, folder):
    """Return the variables that a recipe's text knows its server by."""
    names = ("node", "address", "port", "localhost", "token", "program")
    variables = {name.upper(): str(note.get(name, "")) for name in names}
    place = "[{ADDRESS}]:{PORT}" if ":" in note["address"] else "{ADDRESS}:{PORT}"
    return dict(variables, FOLDER=folder, ENDPOINT=place.format(**variables))


def look(note, environment, patience=PATIENCE):
    """Return state and words of a server: whose its port is, and whether it answers."""
    users = owners(note["address"], int(environment["PORT"]))
    if users != {os.getuid()}:
        words = f"port {environment['PORT']} belongs to {user_names(users)}"
        return {"state": "silent", "words": words, "user": user_names(users)}
    answers, words = try_text(note["alive"], environment, patience)
    state = "answers" if answers else "silent"
    return {"state": state, "words": "" if answers else words, "user": user_names(users)}


def check(folder):
    """Look at the server of this job on its node, and print its note without the token."""
    with open(os.path.join(folder, "note")) as file:
        note = json.load(file)
    try:
        with open(f"/proc/{note['pid']}/environ", "rb") as file:
            lives = f"SLURM_JOB_ID={note['job']}\0".encode() in file.read()
    except (OSError, KeyError):
        lives = False
    if lives and note["state"] in ("answers", "silent"):
        environment = dict(os.environ, **note_variables(note, folder))
        note.update(look(note, environment, CHECKING))
    elif not lives and note["state"] != "ended":
        note.update(state="starting", words="this run's server has not begun", since=0)
    note["asked"] = time.time()
    print(json.dumps({name: value for name, value in note.items() if name != "token"}))


def run(script):
    """Run the batch script's server until it ends; return the exit code of the job."""
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
    """Remove the folders of servers that ended long ago, however they did."""
    for name in filter(str.isdigit, os.listdir(serve)):
        folder = os.path.join(serve, name)
        with contextlib.suppress(OSError):
            if time.time() - os.stat(folder).st_mtime > KEPT:
                shutil.rmtree(folder)
