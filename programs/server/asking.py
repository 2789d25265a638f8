"""Sockets of this node with their owners, and requests to a server."""

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
CONNECTED, LISTENS = "01", "0A"  # states of sockets in /proc/net/tcp


def list_sockets(port):
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


def find_owners(address, port):
    """Return the uids of the processes that get the connections to an address and port.

    If several listen, the one with the most exact address gets them.
    """
    listeners = [(local, uid) for local, state, uid in list_sockets(port) if state == LISTENS]
    for candidate in (address, "::" if ":" in address else "0.0.0.0", "::"):
        uids = {uid for local, uid in listeners if local == candidate}
        if uids:
            return uids
    return set()


def has_connection(port):
    """Return True if somebody is connected to a port of this user."""
    own = os.getuid()
    return any(state == CONNECTED and uid == own for _, state, uid in list_sockets(port))


def name_users(uids):
    """Return the names of users, sorted by uid, as one text; "nobody" without any."""
    names = []
    for uid in sorted(uids):
        try:
            names.append(pwd.getpwuid(uid).pw_name)
        except KeyError:
            names.append(str(uid))
    return ", ".join(names) or "nobody"


def open_own(address, port):
    """Connect to a server of this user, and send nothing; raises OSError if it is another's."""
    connection = socket.create_connection((address, port), timeout=PATIENCE)
    users = find_owners(address, port)
    if users != {os.getuid()}:
        connection.close()
        raise OSError(f"port {port} belongs to {name_users(users)}")
    return connection


def ask(path, header="", body="", status="2", without=""):
    """Ask the server; return its answer's body, or raise OSError that says what it answered.

    header: lines, separated by CRLF. status: a pattern for the beginning of the answer's status, by
    default that of a success.
    without: a token; leave out the header lines, and the body, that contain it.
    """
    if without:
        header = "\r\n".join(line for line in header.split("\r\n") if without not in line)
        body = "" if without in body else body
    port = int(os.environ["PORT"])
    with open_own(os.environ["ADDRESS"], port) as connection:
        connection.settimeout(600)  # the first answer of a model takes minutes
        connection.sendall(request_text(path, header, body, port).encode())
        with connection.makefile("rb") as answer:
            status_line = answer.readline(1000).decode("latin-1")
            connection.settimeout(5)
            rest = b""
            with contextlib.suppress(OSError):  # some servers log a client that leaves early
                rest = answer.read(1 << 20)
    fields, _, content = rest.partition(b"\r\n\r\n")
    refused_by_gate = b"X-Neuronctl: refused" in fields.split(b"\r\n")
    code = status_code(status_line)
    if refused_by_gate or not re.match(status, code):
        raise OSError("{} answers {}".format(path.partition("?")[0], code))
    return content


def request_text(path, header, body, port):
    """Return the text of a request: GET, or POST with a body."""
    lines = ["{} {} HTTP/1.0".format("POST" if body else "GET", path)]
    lines += [line for line in header.split("\r\n") if line]
    lines += ["Host: {}:{}".format(os.environ["LOCALHOST"], port), "X-Neuronctl: probe"]
    lines += [f"Content-Length: {len(body.encode())}"] if body else []
    return "\r\n".join([*lines, "", body])


def status_code(line):
    """Return the code in an answer's first line, or words for another answer."""
    protocol, *words = line.split(" ", 2)
    if protocol.startswith("HTTP/") and words:
        return words[0].strip()
    return "no HTTP" if line else "nothing"


def ask_from_input():
    """Ask with the words in standard input, where no other user sees a secret; print the body."""
    words = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").split("\0")
    try:
        # Each word ends with \0, and no word comes after the last one.
        sys.stdout.buffer.write(ask(*words[:-1], without=os.environ.get("WITHOUT", "")))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


def find_own_address(node):
    """Return an address of this node that others reach: IPv4 if it has one."""
    places = []
    with contextlib.suppress(OSError):
        infos = socket.getaddrinfo(node, None, 0, socket.SOCK_STREAM)
        places = [host for _, _, _, _, (host, *_) in infos]
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))  # sends nothing
            places.append(probe.getsockname()[0])
    ipv4_first = sorted(places, key=lambda place: ":" in place)
    for place in ipv4_first:
        is_local = re.match(r"127\.|::1$|fe80:|0\.0\.0\.0", place)
        if not is_local and bind_port(place, 0):
            return place
    sys.exit(f"serve: {node} has no address of its own")


def bind_port(address, port):
    """Bind a socket for a moment, and return its port; 0 if that fails.

    port: 0 for any one.
    """
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.bind((address, port))
            return probe.getsockname()[1]
    except OSError:
        return 0


def find_free_port(address):
    """Return a random port that nothing listens on; 0 if there is none."""
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if bind_port(address, port):
            return port
    return bind_port(address, 0)


PRELUDE = """ask() { printf '%s\\0' "$@" | "$PYTHON" -EsSB "$PROGRAM/main.py" ask; }
end_server() { printf '%s\\n' "${2:-1}" "$1" >"$FOLDER/.end"; }
asked() {
"""


def try_text(text, environment, seconds=600):
    """Run a recipe's shell text; return whether it succeeds, and the last line of its errors."""
    process = subprocess.Popen(
        ["bash", "-c", PRELUDE + text + "\n}\nasked"],
        env=dict(environment, PYTHON=sys.executable),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        signal_tree(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
        errors += b"\nno answer within %d s" % seconds
    lines = errors.decode("utf-8", "replace").strip().split("\n")
    return process.returncode == 0, lines[-1][-300:]
