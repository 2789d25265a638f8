"""The gate before a server that would let everybody in."""

import asyncio
import base64
import ctypes
import fcntl
import hmac
import os
import re
import signal
import socket
import subprocess
import sys

from processes import exit_code, signal_tree

HEAD_SECONDS = 30  # for the head of a request
WAITING = 200  # connections whose head is awaited at a time
ANSWER = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: close\r\n%s\r\n%s"


def enter_own_network():
    """Move into a user and a network namespace, whose loopback no other process reaches."""
    user, group = os.getuid(), os.getgid()
    if LIBC.unshare(0x10000000 | 0x40000000):  # CLONE_NEWUSER | CLONE_NEWNET
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1"}
    maps["gid_map"] = f"{group} {group} 1"
    for name, text in maps.items():
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
    with socket.socket() as own:  # SIOCSIFFLAGS, IFF_UP
        fcntl.ioctl(own, 0x8914, b"lo".ljust(16, b"\0") + b"\1".ljust(16, b"\0"))


LIBC = ctypes.CDLL(None, use_errno=True)


class Gate:
    """Pass on requests with the token to a server on a loopback of its own; refuse all others.

    A connection carries one request or one WebSocket, with the token in the query, a cookie, as
    Bearer, or as Basic password.
    """

    def __init__(self, port, token, used):
        self.port = port
        self.token = token
        self.used = used  # the file whose time says when somebody used the server
        self.cookie = f"neuronctl_{port}"
        self.waiting = []  # the writers of connections whose head is awaited, the oldest first

    def is_token(self, word):
        """Return True if the word is the token; take the same time for each."""
        return hmac.compare_digest(word.encode("latin-1"), self.token.encode())

    def is_token_cookie(self, cookie):
        """Return True for the gate's cookie with the token."""
        return self.is_token(cookie.replace(self.cookie + "=", "", 1))

    def remove_token(self, head):
        """Return a request's head without the token in query and cookies, and where the token was.

        That is "field" for a cookie or Authorization, otherwise "query"; "": there was none.
        """
        line, *fields = head[:-4].split("\r\n")  # without the empty line at its end
        query = r"(?<=[?&])token=([^&\s]*)&?"
        clean_line = re.sub(query, lambda it: "" if self.is_token(it[1]) else it[0], line)
        token_place = "query" if clean_line != line else ""
        kept = [re.sub(r"[?&] ", " ", clean_line)]
        upgrades = "\nupgrade:" in head.lower()
        for field in fields:
            name, _, value = (part.strip() for part in field.partition(":"))
            cookies = [cookie.strip() for cookie in value.split(";")]
            kept_cookies = [cookie for cookie in cookies if not self.is_token_cookie(cookie)]
            if name.lower() == "cookie" and kept_cookies != cookies:
                token_place = "field"
                kept.append("Cookie: " + "; ".join(kept_cookies))
                continue
            if name.lower() == "authorization" and self.is_token(read_password(value)):
                token_place = "field"
            if name.lower() != "connection" or upgrades:
                kept.append(field)
        if not upgrades:
            kept.append("Connection: close")
        return "\r\n".join([*kept, "", ""]), token_place

    async def serve(self, reader, writer):
        """Refuse a connection or pass it on, by the head of its request."""
        self.waiting.append(writer)
        if len(self.waiting) > WAITING:
            oldest = self.waiting.pop(0)
            oldest.transport.abort()
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
            request, token_place = self.remove_token(head.decode("latin-1"))
            opens_page = re.search(rb"(?i)\naccept:.*text/html", head)
            if not token_place:
                writer.write(ANSWER % (b"403 Forbidden", REFUSED, REFUSAL))
            elif token_place == "query" and opens_page:  # let the browser ask again with a cookie
                cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax"
                fields = f"Set-Cookie: {cookie}\r\nLocation: {request.split()[1]}\r\n"
                writer.write(ANSWER % (b"303 See Other", fields.encode("latin-1"), b""))
            else:
                self.waiting.remove(writer)
                counts = b"\r\nX-Neuronctl: probe\r\n" not in head
                await self.pass_both_ways(request, reader, writer, counts)
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError):
            pass  # a client that is gone, slow, or wrong, or a server that does not listen yet
        finally:
            if writer in self.waiting:
                self.waiting.remove(writer)
            writer.close()

    async def pass_both_ways(self, request, reader, writer, counts):
        """Pass on a request and what follows, and the answer. counts: whether this is use."""
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.port)
        to_writer.write(request.encode("latin-1"))
        tasks = [asyncio.ensure_future(pass_on(reader, to_writer))]
        if counts:
            tasks.append(asyncio.ensure_future(self.note_use()))
        await pass_on(to_reader, writer)
        for task in tasks:
            task.cancel()
        to_writer.close()

    async def note_use(self):
        """Update the time of the file ``used`` until this task is canceled."""
        while True:
            with open(self.used, "w"):
                os.utime(self.used)
            await asyncio.sleep(2)


REFUSED = b"X-Neuronctl: refused\r\n"
REFUSAL = b"no token: see neuronctl serve connect\n"


def read_password(value):
    """Return the password or the bearer's token in the value of an Authorization field."""
    scheme, *rest = value.split(" ", 1)
    if scheme.lower() != "basic":
        return rest[0] if rest else value
    user_and_password = base64.b64decode("".join(rest) + "==").decode("latin-1")
    return user_and_password.split(":", 1)[-1]


async def pass_on(reader, writer):
    """Copy from one side to the other until it ends."""
    try:
        data = await reader.read(65536)
        while data:
            writer.write(data)
            await writer.drain()
            data = await reader.read(65536)
        writer.write_eof()
    except OSError:
        pass  # one side has gone


def keep_gate(command):
    """Listen in the server's place, and run its command in a network of its own, until it ends."""
    folder, address, port = (os.environ[name] for name in ("FOLDER", "ADDRESS", "PORT"))
    token = os.environ.get("TOKEN")
    if not token:
        sys.exit("gate: not started: there is no token")
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, int(port)))
        listening.listen(100)
        enter_own_network()
    except OSError as error:
        need = "it needs its port, and namespaces (sysctl user.max_user_namespaces)"
        sys.exit(f"gate: not started: {error.strerror}: {need}, to keep others out")
    gate = Gate(int(port), token, os.path.join(folder, "used"))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(stand_before(gate, listening, command))


async def stand_before(gate, listening, command):
    """Run a server behind the gate; exit with its code when it ends."""
    await asyncio.start_server(gate.serve, sock=listening)
    process = subprocess.Popen(command, env=dict(os.environ, ADDRESS="127.0.0.1"))
    loop = asyncio.get_event_loop()
    loop.add_signal_handler(signal.SIGTERM, signal_tree, process.pid, signal.SIGTERM)
    while process.poll() is None:
        await asyncio.sleep(0.2)
    os._exit(exit_code(process.returncode))
