"""Let only requests with the token reach a server that would let everybody in.

The server has a loopback of its own and no network, so nobody else on the node reaches it. A
connection carries one request or one WebSocket, with the token in the query, a cookie, as Bearer,
or as Basic password. Usage: ADDRESS=… PORT=… FOLDER=… python3 gate.py COMMAND…
"""

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

SECONDS, WAITING = 30, 200  # for the head of a request; so many are awaited at a time
ADDRESS, PORT = os.environ["ADDRESS"], int(os.environ["PORT"])
with open(os.path.join(os.environ["FOLDER"], "token")) as token_file:
    TOKEN = token_file.read().strip() or sys.exit("gate: not started: the token's file is empty")
COOKIE = f"neuronctl_{PORT}"
ANSWER = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nConnection: close\r\n%s\r\n%s"
LIBC = ctypes.CDLL(None, use_errno=True)
waiting = []


def enter_own_network():
    """Move into a user and a network namespace: new sockets see only their loopback."""
    user, group = os.getuid(), os.getgid()
    if LIBC.unshare(0x10000000 | 0x40000000):  # CLONE_NEWUSER | CLONE_NEWNET
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    for name, text in maps.items():
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
    with socket.socket() as own:  # SIOCSIFFLAGS, IFF_UP
        fcntl.ioctl(own, 0x8914, b"lo".ljust(16, b"\0") + b"\1".ljust(16, b"\0"))


def is_token(word):
    return hmac.compare_digest(word.encode("latin-1"), TOKEN.encode())


def without_token(head):
    """Return a head without the token in query and cookie, and where a token was: query, field."""
    line, *fields = head[:-4].split("\r\n")
    query = r"(?<=[?&])token=([^&\s]*)&?"
    clean = re.sub(query, lambda match: "" if is_token(match.group(1)) else match.group(0), line)
    found, upgrade = "query" if clean != line else "", "\nupgrade:" in head.lower()
    kept = [re.sub(r"[?&] ", " ", clean)]
    for field in fields:
        name, _, value = (part.strip() for part in field.partition(":"))
        words = value.split(" ", 1)
        if words[0].lower() == "basic":
            words = base64.b64decode(words[-1] + "==").decode("latin-1").split(":", 1)
        cookies = [part.strip() for part in value.split(";")]
        others = [part for part in cookies if not is_token(part.replace(COOKIE + "=", "", 1))]
        if name.lower() == "cookie" and others != cookies:
            found, field = "field", "Cookie: " + "; ".join(others)
        if name.lower() == "authorization" and is_token(words[-1]):
            found = "field"
        if name.lower() != "connection" or upgrade:
            kept.append(field)
    return "\r\n".join(kept + ["Connection: close"] * (not upgrade) + ["", ""]), found


async def pass_on(reader, writer):
    try:
        data = await reader.read(65536)
        while data:
            writer.write(data)
            await writer.drain()
            data = await reader.read(65536)
        writer.write_eof()
    except OSError:
        pass  # one side has gone


async def serve(reader, writer):
    """Serve one connection: the head of its request decides."""
    waiting.append(writer)
    if len(waiting) > WAITING:
        waiting.pop(0).transport.abort()
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
        request, found = without_token(head.decode("latin-1"))
        if not found:
            writer.write(
                ANSWER % (b"403 Forbidden", b"", b"no token: see neuronctl serve connect\n")
            )
        elif found == "query" and re.search(rb"(?i)\naccept:.*text/html", head):
            cookie = f"Set-Cookie: {COOKIE}={TOKEN}; Path=/; HttpOnly; SameSite=Lax\r\n"
            fields = f"{cookie}Location: {request.split()[1]}\r\n".encode("latin-1")
            writer.write(ANSWER % (b"303 See Other", fields, b""))
        else:
            waiting.remove(writer)
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", PORT)
            to_writer.write(request.encode("latin-1"))
            sending = asyncio.ensure_future(pass_on(reader, to_writer))
            await pass_on(to_reader, writer)
            sending.cancel()
            to_writer.close()
    except (OSError, ValueError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError):
        pass  # a client that is gone, slow, or wrong, or a server that does not listen yet
    finally:
        if writer in waiting:
            waiting.remove(writer)
        writer.close()


async def main(listening):
    await asyncio.start_server(serve, sock=listening)
    server = dict(os.environ, ADDRESS="127.0.0.1")
    process = subprocess.Popen(sys.argv[1:], env=server)

    def end_server():
        if subprocess.call(["pkill", "-P", str(process.pid)]):  # what the shell runs ends first
            process.terminate()

    asyncio.get_event_loop().add_signal_handler(signal.SIGTERM, end_server)
    while process.poll() is None:
        await asyncio.sleep(0.2)
    os._exit(process.returncode if process.returncode >= 0 else 128 - process.returncode)


listening = socket.socket()
listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    listening.bind((ADDRESS, PORT))
    enter_own_network()
except OSError as error:
    need = "it needs its port, and namespaces (sysctl user.max_user_namespaces), to keep others out"
    sys.exit(f"gate: not started: {error.strerror}: {need}")
asyncio.new_event_loop().run_until_complete(main(listening))
