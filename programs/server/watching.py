"""Run a server until it ends, look after it, and note how it is."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from asking import binds, endpoint, free_port, own_address, owners, try_text, user_names
from processes import exit_code, signal_tree
from use import Use

EVERY = 3  # seconds between two looks at a server that answers
STRANGER_EVERY = 60  # seconds between two requests without the token, which a server may log
STARTS = 3  # at most, while somebody else takes the port
PATIENCE = 10  # seconds for a server's answer, once it has answered
CHECKING = 4  # seconds for it if somebody waits for the answer, with srun's own start
KEPT = 7 * 24 * 3600  # seconds for which the note of a server that ended stays
WORDS = 4000  # bytes of a file in FOLDER that become part of the note
MOST = 1 << 20  # bytes of a log that are kept if it is written anew
ENDING = 20  # seconds for a server to end; Slurm waits for 30 by default

TUNNEL = """old= same=0
while now=$(grep '"token"' {note} 2>/dev/null); do  # it is written anew every few seconds
    if [ "$now" = "$old" ]; then same=$((same + 1)); else same=0 old=$now; fi
    [ "$same" -lt 30 ] || break
    sleep 1
done
kill "$PPID"
"""
"""What runs at the far end of a tunnel; its parent is the user's own sshd process."""


def say(words):
    print(words, file=sys.stderr, flush=True)


def quoted(text):
    return "'" + text.replace("'", "'\"'\"'") + "'"


def write_file(folder, name, text):
    """Write a private file as a whole."""
    aside = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w") as stream:
        stream.write(text)
    os.replace(aside, os.path.join(folder, name))


class Server:
    """The server of this job, and the note of how it is.

    recipe: name, guard, ready, alive, used, ready_within, and open. idle: seconds, 0 for no end.
    """

    def __init__(self, serve, recipe, address, idle):
        self.recipe, self.idle, self.serve = recipe, idle, serve
        self.job = os.environ["SLURM_JOB_ID"]
        self.folder = os.path.join(serve, self.job)
        node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
        self.address, self.port, self.token = address or own_address(node), 0, os.urandom(24).hex()
        self.process, self.ending, self.listened, self.taken = None, None, False, False
        self.lock, self.last_words, self.temporary = threading.Lock(), "", ""
        self.stopped = threading.Event()
        self.note = {
            "recipe": recipe["name"],
            "job": self.job,
            "run": os.environ.get("SLURM_RESTART_COUNT", "0"),
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
            self.note.update(more, asked=time.time(), port=str(self.port))
            values = {}
            for name in filter(str.isidentifier, os.listdir(self.folder)):
                path = os.path.join(self.folder, name)
                if os.path.isfile(path) and name not in ("note", "tunnel", "used"):
                    with open(path, errors="replace") as file:
                        values[name] = file.read(WORDS).strip()
            self.note["values"] = values
            write_file(self.folder, "note", json.dumps(self.note) + "\n")

    def environment(self):
        """Return what the server's script, and a recipe's text, get in their environment."""
        binds = {
            name: ",".join(filter(None, (os.environ.get(name), self.serve, self.temporary)))
            for name in ("SINGULARITY_BIND", "APPTAINER_BIND")
        }
        names = {
            "NEURONCTL_SERVER": self.job,
            "SERVE": self.serve,
            "FOLDER": self.folder,
            "NODE": self.note["node"],
            "ADDRESS": self.address,
            "PORT": str(self.port),
            "ENDPOINT": endpoint(self.address, self.port),
            "LOCALHOST": self.note["localhost"],
            "TOKEN": self.token,
            "PROGRAM": self.note["program"],
            "TMPDIR": self.temporary,
        }
        return {**os.environ, **names, **binds}

    def holds(self, text, **more):
        """Return True if a recipe's text succeeds; its last words are kept."""
        holds, self.last_words = try_text(text, {**self.environment(), **more})
        return holds

    def lets_strangers_in(self, text):
        """Return True if a recipe's text succeeds with a wrong token, or without one."""
        if self.recipe["open"]:
            return False
        wrong = os.urandom(24).hex()
        return any(
            self.holds(text, TOKEN=wrong, STRANGER="stranger", WITHOUT=without)
            for without in ("", wrong)
        )

    def end(self, process, words, code):
        """End the server, and the job with this exit code."""
        if self.ending is not None or process.poll() is not None:
            return
        self.ending = words, code
        say("serve: " + words)
        signal_tree(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING)
        signal_tree(process.pid, signal.SIGKILL)

    def keeps_strangers_out(self, process, text):
        """Return True if a recipe's text fails without the token; otherwise the server ends."""
        if not self.lets_strangers_in(text):
            return True
        words = f"{self.recipe['name']} lets everybody in: it answers without the token"
        self.end(process, words, 1)
        return False

    def obey_recipe(self, process):
        """End the server if the recipe's text has called end_server."""
        with contextlib.suppress(OSError, ValueError), open(self.folder + "/.end") as file:
            code, words = file.read().split("\n", 1)
            self.end(process, words.strip(), int(code))

    def wait_until_ready(self, process):
        """Return True once the server has answered, and has refused who has no token."""
        begun, within = time.time(), self.recipe["ready_within"]
        while process.poll() is None and self.ending is None:
            users = owners(self.address, self.port)
            if users - {os.getuid()}:
                say(f"serve: port {self.port} belongs to {user_names(users)}")
                self.taken = True
                signal_tree(process.pid, signal.SIGTERM)
                return False
            self.listened = self.listened or bool(users)
            if users and self.holds(self.recipe["ready"]):
                return self.keeps_strangers_out(process, self.recipe["ready"])
            nothing = "nothing listens on " + endpoint(self.address, self.port)
            words = self.last_words if users else nothing
            waited = time.time() - begun
            if waited > within:
                name = self.recipe["name"]
                self.end(process, f"{name} did not answer within {within:g} s: {words}", 1)
            self.write_note(words=words)
            self.obey_recipe(process)
            self.stopped.wait(1 if waited < 60 else 5)
        return False

    def watch(self, process):
        """Look after the server as long as it lives; an error of ours ends it."""
        try:
            if self.wait_until_ready(process):
                self.write_note(since=time.time(), **look(self.note, self.environment()))
                place = f"port {self.port} of {self.note['node']}"
                say(f"serve: {self.recipe['name']} answers on {place}")
                self.look_after(process)
        except Exception:  # nobody would know how it is
            if process.poll() is None:
                traceback.print_exc()
                self.end(process, "neuronctl's watcher failed, so the server ends", 1)

    def look_after(self, process):
        used = asked = time.time()
        use = Use(self)
        while process.poll() is None and self.ending is None:
            self.write_note(**look(self.note, self.environment()))
            if time.time() - asked > STRANGER_EVERY and "$TOKEN" in self.note["alive"]:
                asked = time.time()
                self.keeps_strangers_out(process, self.note["alive"])
            if self.idle and use.is_seen():
                used = time.time()
            if self.idle and time.time() - used >= self.idle:
                self.end(process, f"nobody used it for {self.idle} s, so it ends", 0)
            self.obey_recipe(process)
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
        process = self.process = subprocess.Popen([*shell(script), script], env=self.environment())
        watcher = threading.Thread(target=self.watch, args=(process,), daemon=True)
        watcher.start()
        code = exit_code(process.wait())
        self.stopped.set()
        watcher.join(2)
        taken = self.taken or not (self.listened or binds(self.address, self.port))
        return None if taken and self.ending is None else code

    def run(self, script):
        """Run the server until it ends; return the exit code of the job."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self.pass_signal_on)
        code, starts = None, 0
        while code is None and starts < STARTS:
            if starts:
                say(f"serve: port {self.port} is taken; trying another one")
            starts += 1
            code = self.start(script)
        words, code = self.ending or ("", 1 if code is None else code)
        if code and not words:
            words = f"{self.recipe['name']} ended with exit code {code}"
            words += "" if self.note["since"] else ", and never answered"
            say("serve: " + words)
        self.clear(words)
        return code

    def make_folder(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder, 0o700)
        note = quoted(os.path.join(self.folder, "note"))
        write_file(self.folder, "tunnel", TUNNEL.replace("{note}", note))
        self.temporary = tempfile.mkdtemp(prefix="serve.")

    def pass_signal_on(self, number, frame):
        if number == signal.SIGTERM:
            self.ending = self.ending or ("it was cancelled or requeued, or out of time", 143)
            self.note.pop("token", None)
        process = self.process
        if process is not None and process.poll() is None:
            signal_tree(process.pid, number)
            if number == signal.SIGTERM:
                kill = threading.Timer(ENDING, signal_tree, (process.pid, signal.SIGKILL))
                kill.daemon = True
                kill.start()

    def clear(self, words):
        """Leave of the server only the note of how it ended."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.unlink(path)
        gone = ("token", "values", "pid", "alive")
        note = {name: value for name, value in self.note.items() if name not in gone}
        note.update(state="ended", words=words, asked=time.time())
        write_file(self.folder, "note", json.dumps(note) + "\n")


def shell(script):
    """Return the words of a script's first line: its shell may be a login shell."""
    with open(script) as file:
        return file.readline()[2:].split()


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
            lives = b"SLURM_JOB_ID=" + note["job"].encode() + b"\0" in file.read()
    except (OSError, KeyError):
        lives = False
    if lives and note["state"] in ("answers", "silent"):
        own = {"FOLDER": folder, "PROGRAM": note["program"], "LOCALHOST": note["localhost"]}
        own.update({name.upper(): note[name] for name in ("address", "port", "token", "node")})
        note.update(look(note, {**os.environ, **own}, CHECKING))
    elif not lives and note["state"] != "ended":
        note.update(state="starting", words="this run's server has not begun", since=0)
    note["asked"] = time.time()
    print(json.dumps({name: value for name, value in note.items() if name != "token"}))


def make_private_logs():
    """Write the log anew if others can read it: its mode binds nobody who has opened it before.

    Slurm makes a log with mode 0600, but takes one that is there already, whoever made it.
    """
    same = os.path.sameopenfile(1, 2)
    for descriptor in (1,) if same else (1, 2):
        status = os.fstat(descriptor)
        own = status.st_uid == os.getuid()
        if not stat.S_ISREG(status.st_mode) or (own and not status.st_mode & 0o077):
            continue
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        aside = f"{path}.{os.urandom(6).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        try:
            log = os.open(aside, flags, 0o600)
            os.replace(aside, path)
        except OSError as error:
            sys.exit(f"serve: others can read {path}: {error}; name another log with -o")
        if own:
            with open(f"/proc/self/fd/{descriptor}", "rb") as old:
                os.write(log, old.read(MOST))
        os.dup2(log, descriptor)
        os.close(log)
    if same:
        os.dup2(1, 2)


def remove_old(serve):
    """Remove the folders of servers that ended long ago, however they did."""
    for name in filter(str.isdigit, os.listdir(serve)):
        folder = os.path.join(serve, name)
        with contextlib.suppress(OSError):
            if time.time() - os.stat(folder).st_mtime > KEPT:
                shutil.rmtree(folder)


def read_recipe(path):
    """Return a recipe, whose file's name has its digest."""
    with open(path, "rb") as file:
        content = file.read()
    if not re.search(f"-{hashlib.sha256(content).hexdigest()[:16]}[.]json$", path):
        sys.exit(f"serve: {path} has changed: start the server anew with 'neuronctl serve'")
    return json.loads(content.decode())


def run(words):
    """Run a server. words: NAME=VALUE…, the recipe's file, and the batch script."""
    serve = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    options = dict(word.split("=", 1) for word in words[:-2])
    make_private_logs()
    try:
        recipe = read_recipe(os.path.join(serve, words[-2]))
        server = Server(serve, recipe, options.get("address", ""), int(options.get("idle", 0)))
        remove_old(serve)
        server.make_folder()
        return server.run(words[-1])
    except OSError as error:
        return f"serve: cannot write {serve}: {error}; set XDG_STATE_HOME to another directory"
