"""Sockets of this node, whose they are, and requests to a server."""

import contextlib
import os
import pwd
import random
import re
import signal
import socket
import subprocess
import sys

from processes import signal_tree

PORTS = range(30000, 32768)  # below those of outgoing connections, above those of MASTER_PORT
PATIENCE = 10  # seconds for a server's answer, once it has answered
CONNECTED, LISTENS = "01", "0A"  # states of /proc/net/tcp


def sockets(port):
    """Yield address, state, and uid of each socket of this node on a port."""
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with contextlib.suppress(FileNotFoundError), open("/proc/net/" + name) as file:
            for fields in map(str.split, file.readlines()[1:]):
                host, number = fields[1].split(":")
                if int(number, 16) == port:
                    yield _address(family, host), fields[3], int(fields[7])


def _address(family, digits):
    """Return an address of /proc/net/tcp, whose words are in the machine's byte order."""
    words = [bytes.fromhex(digits[start : start + 8]) for start in range(0, len(digits), 8)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return re.sub(r"^::ffff:(?=\d+\.)", "", socket.inet_ntop(family, b"".join(words)))


def owners(address, port):
    """Return the uids of whoever gets the connections to a place: the most exact address counts."""
    listening = [(name, uid) for name, state, uid in sockets(port) if state == LISTENS]
    for exact in (address, "::" if ":" in address else "0.0.0.0", "::"):
        users = {uid for name, uid in listening if name == exact}
        if users:
            return users
    return set()


def has_connection(port):
    """Return True if somebody is connected to a port of this user's."""
    return any(row[1:] == (CONNECTED, os.getuid()) for row in sockets(port))


def user_names(uids):
    """Return the names of the users, sorted by their numbers."""
    names = []
    for uid in sorted(uids):
        try:
            names.append(pwd.getpwuid(uid).pw_name)
        except KeyError:
            names.append(str(uid))
    return ", ".join(names) or "nobody"


def open_own(address, port):
    """Connect to a server of this user's; nothing has been sent yet. Raises OSError."""
    connection = socket.create_connection((address, port), timeout=PATIENCE)
    users = owners(address, port)
    if users != {os.getuid()}:
        connection.close()
        raise OSError(f"port {port} belongs to {user_names(users)}")
    return connection


def ask(path, header="", body="", status="2", without=""):
    """Ask the server; return its answer's body, or raise OSError that says what it answered.

    status: a pattern that the status begins with. without: a token whose header lines are left out.
    """
    port = int(os.environ["PORT"])
    lines = [line for line in header.split("\r\n") if line and not (without and without in line)]
    body = "" if without and without in body else body
    lines += ["Host: {}:{}".format(os.environ["LOCALHOST"], port), "X-Neuronctl: probe"]
    lines += [f"Content-Length: {len(body.encode())}"] if body else []
    start = "{} {} HTTP/1.0".format("POST" if body else "GET", path)
    with open_own(os.environ["ADDRESS"], port) as connection:
        connection.settimeout(600)  # a model's first word
        connection.sendall("\r\n".join([start, *lines, "", body]).encode())
        with connection.makefile("rb") as answer:
            first = answer.readline(1000).decode("latin-1").split(" ", 2)
            connection.settimeout(5)
            rest = b""
            with contextlib.suppress(OSError):  # a server may log who leaves early
                rest = answer.read(1 << 20)
    code = "no HTTP" if first[0] else "nothing"
    if first[0].startswith("HTTP/") and len(first) > 1:
        code = first[1]
    fields, _, content = rest.partition(b"\r\n\r\n")
    refused = b"X-Neuronctl: refused" in fields.split(b"\r\n")  # by the gate, whatever is expected
    if refused or not re.match(status, code):
        raise OSError("{} answers {}".format(path.partition("?")[0], code.strip()))
    return content


def ask_as_told():
    """Ask as a recipe's text says it, by standard input: no command line shows a secret."""
    words = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").split("\0")
    try:
        sys.stdout.buffer.write(ask(*words[:-1], without=os.environ.get("WITHOUT", "")))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


def own_address(node):
    """Return an address of this node that others reach: IPv4 if it has one."""
    places = []
    with contextlib.suppress(OSError):
        places = [info[4][0] for info in socket.getaddrinfo(node, None, 0, socket.SOCK_STREAM)]
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))  # sends nothing
            places.append(probe.getsockname()[0])
    for place in sorted(places, key=lambda place: ":" in place):
        if not re.match(r"127\.|::1$|fe80:|0\.0\.0\.0", place) and binds(place, 0):
            return place
    sys.exit(f"serve: {node} has no address of its own")


def binds(address, port):
    """Return the port on which a socket can be bound, whatever else is bound there; 0 for none."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.bind((address, port))
            return probe.getsockname()[1]
    except OSError:
        return 0


def free_port(address):
    """Return a port that nothing listens on."""
    ports = random.SystemRandom().sample(PORTS, len(PORTS))
    return next((port for port in ports if binds(address, port)), 0) or binds(address, 0)


PRELUDE = """ask() { printf '%s\\0' "$@" | "$PYTHON" -EsSB "$PROGRAM/main.py" ask; }
end_server() { printf '%s\\n' "${2:-1}" "$1" >"$FOLDER/.end"; }
asked() {
"""


def try_text(text, environment, seconds=600):
    """Return whether a recipe's shell text succeeds, and its last words."""
    process = subprocess.Popen(
        ["bash", "-c", PRELUDE + text + "\n}\nasked"],
        env=dict(environment, PYTHON=sys.executable),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        words = process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        signal_tree(process.pid, signal.SIGKILL)
        words = process.communicate()[1] + b"\nno answer within %d s" % seconds
    lines = words.decode("utf-8", "replace").strip().split("\n")
    return process.returncode == 0, lines[-1][-300:]
