"""Run a command as an ordinary user with sub-ids, made in a mount namespace of its own.

unshare -m python as_user.py CMD…          as root; the machine's /etc stays as it is
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import List

from neuronctl.sandbox import client, kernel

NAME = "alice"
UID = 20101
PLACE = "/srv"
"""Hidden, in here, under an empty directory of our own."""


def main() -> None:
    """Make the user, become her, run the command."""
    passwd, group = (Path("/etc", name).read_text() for name in ("passwd", "group"))
    _open_to_others(list(client.exposed_directories()))
    kernel.mount_tmpfs(PLACE, 0o755)
    home = Path(PLACE, NAME)
    home.mkdir(mode=0o700)
    os.chown(home, UID, UID)
    files = {
        "passwd": f"{passwd}{NAME}:x:{UID}:{UID}::{home}:/bin/bash\n",
        "group": f"{group}{NAME}:x:{UID}:\n",
        "subuid": f"{NAME}:300000:65536\n",
        "subgid": f"{NAME}:300000:65536\n",
    }
    for name, text in files.items():
        Path(PLACE, name).write_text(text)
        kernel.bind(f"{PLACE}/{name}", f"/etc/{name}")
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    os.chdir(home)
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "PYTEST_"))
    }
    os.execvpe(sys.argv[1], sys.argv[1:], {**env, "HOME": str(home), "USER": NAME})


def _open_to_others(needed: List[str]) -> None:
    """Where a directory is closed to others (root's home), show only what is needed of it."""
    closed = {
        str(parent): None
        for path in needed
        for parent in Path(path).parents
        if not parent.stat().st_mode & stat.S_IXOTH
    }
    for directory in closed:
        inside = [path for path in needed if path.startswith(directory + "/")]
        opened = {path: os.open(path, os.O_PATH) for path in inside}
        kernel.mount_tmpfs(directory, 0o755)
        for path, descriptor in opened.items():
            Path(path).mkdir(parents=True, exist_ok=True)
            kernel.bind(f"/proc/self/fd/{descriptor}", path)
            os.close(descriptor)


if __name__ == "__main__":
    main()
