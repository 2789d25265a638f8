"""The cluster's side: it runs in a process that an ssh session from another machine starts.

``answer`` says that it has begun, and takes the request: a command line, which it prepares and
leaves to the command line itself, or files to receive or to send.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import shutil
import signal
import sys
import threading
from typing import Any, Callable, Dict, Mapping

from neuronctl.common.errors import NeuronctlError
from neuronctl.common.spelling import set_remote
from neuronctl.remote import files

_COPIED = ("submit", "generate", "sweep")
"""Commands whose jobs run a copy of the code that was sent: later ones do not change it."""


def answer(mark: str, packed: str) -> bool:
    """Answer a request; returns True if a command line is to be run now.

    mark: what begins each line of our own. packed: the request, as JSON in Base64.
    """
    request = json.loads(base64.b64decode(packed))
    for stream in (1,) if request.get("tty") else (1, 2):
        os.write(stream, f"\036{mark} begin\n".encode())
    if request["verb"] == "run":
        _prepare(request)
        return True
    verbs: Dict[str, Callable[[Mapping[str, Any], Any], Dict[str, Any]]] = {
        "hello": lambda request, data: _hello(),
        "push": files.receive,
        "pull": files.give,
    }
    try:
        said = verbs[request["verb"]](request, sys.stdin.buffer)
    except NeuronctlError as error:
        said = {"error": error.message, "hint": error.hint, "code": error.exit_code}
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        words = f"{os.uname().nodename}: {getattr(error, 'filename', None) or 'files'}: {reason}"
        hint = "free space there, or make the directory writable, and try again"
        said = {"error": words, "hint": hint, "code": 2}
    files.say(said)
    return False


def _hello() -> Dict[str, Any]:
    """Return where projects go here, and which cluster this is."""
    from neuronctl.common.files import is_own_directory
    from neuronctl.common.users import login_name
    from neuronctl.request.job_file import own_cluster

    cluster = own_cluster()
    scratch = (cluster.scratch or "").replace("{user}", login_name())
    base = scratch if scratch and is_own_directory(scratch) else os.path.expanduser("~")
    return {"directory": os.path.join(base, "neuronctl"), "host": os.uname().nodename}


def _prepare(request: Mapping[str, Any]) -> None:
    """Make this process what the command line expects."""
    root = request["dry"] or files.project_folder(request)
    has_code = request["words"][0] in _COPIED and os.path.isdir(os.path.join(root, ".git"))
    set_remote(request["name"], request["commands"], has_code=has_code)
    if request["dry"]:
        atexit.register(shutil.rmtree, root, ignore_errors=True)
    folder = os.path.join(root, request["below"])
    os.chdir(folder if os.path.isdir(folder) else os.path.expanduser("~"))
    os.environ.update(request["environment"], PWD=os.getcwd())
    os.environ.pop("MARK", None)
    words = (word.encode("latin-1") for word in request["words"])  # whatever bytes they are
    sys.argv = ["neuronctl", *(word.decode("utf-8", "surrogateescape") for word in words)]
    if request["tty"]:
        return
    if not request["input"]:
        control = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        if request["waits"]:
            threading.Thread(target=_interrupt_at_end, args=(control,), daemon=True).start()


def _interrupt_at_end(control: int) -> None:
    """Do what Ctrl-C does once the caller closes our input, or is gone."""
    while os.read(control, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
