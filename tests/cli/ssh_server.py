"""An sshd for each connection, as the ordinary login of this user, with a home of its own.

ssh starts it as its ProxyCommand: there is no port, and nothing is left when the connection ends.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Tuple

import pytest
from fake_slurm import FAKES, FakeSlurm
from terminal import on_terminal

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


class Login:
    """A login node. home: there; work: the user's directory here."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self.home, self.work, self._log = top / "there", top / "work", top / "sshd.log"
        self.slurm = FakeSlurm(top / "fake")
        for folder in (self.home, self.work, self.slurm.directory, top / "bin", top / "run"):
            folder.mkdir()
        (top / "run").chmod(0o700)
        self.socket_dir = top / "run" / "neuronctl"
        for name in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(top / name)]
            subprocess.run(words, check=True)
        self.profile(f"export PATH={Path(sys.executable).parent}:{FAKES}:/usr/bin:/bin")
        self.config = top / "sshd_config"
        self.config.write_text(
            f"HostKey {top}/host\nAuthorizedKeysFile {top}/user.pub\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\n"
            f"LogLevel VERBOSE\nSetEnv HOME={self.home} FAKE_SLURM={self.slurm.directory}"
            f" SLURM_CONF=/dev/null SHELL=/bin/bash\n"
        )
        sshd = f"{SSHD} -i -f {self.config} -E {self._log}"
        if os.getuid() == 0:  # who must have a directory that only a running system has
            sshd = f"mount -t tmpfs none /run && mkdir -p /run/sshd && exec {sshd}"
            sshd = f"unshare -m sh -c {shlex.quote(sshd)}"
        user = pwd.getpwuid(os.getuid()).pw_name
        (top / "ssh_config").write_text(
            f"Host there other\n User {user}\n IdentityFile {top}/user\n IdentitiesOnly yes\n"
            f" StrictHostKeyChecking no\n UserKnownHostsFile {top}/known\n"
            f" ProxyCommand setsid {sshd}\n"
        )
        (top / "bin" / "ssh").write_text(
            f'#!/bin/sh\nexec {shutil.which("ssh")} -F {top}/ssh_config "$@"\n'
        )
        (top / "bin" / "ssh").chmod(0o755)
        patch.setenv("PATH", f"{top}/bin:/usr/bin:/bin")
        patch.setenv("XDG_RUNTIME_DIR", str(top / "run"))
        patch.setenv("TERM", "xterm")
        patch.chdir(self.work)

    def profile(self, *lines: str) -> None:
        """What bash reads there at a login."""
        (self.home / ".bash_profile").write_text("\n".join([*lines, ""]))

    def login(self, name: str = "there") -> str:
        """Log in on a terminal; returns what it shows."""
        return on_terminal("", "login", name)

    def logged(self, words: str) -> int:
        """How often sshd has logged something."""
        return self._log.read_text().count(words) if self._log.exists() else 0

    def sessions(self) -> List[int]:
        """The processes of ssh's masters and of the sshd that they started."""
        listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout
        lines = (line.split(None, 1) for line in listed.splitlines())
        return [int(pid) for pid, words in lines if str(self.socket_dir) in words]

    def kill(self, kind: signal.Signals = signal.SIGKILL) -> None:
        """End the connection as if its machine had died."""
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, kind)
        for _ in range(1200):
            if not self.sessions():
                return
            time.sleep(0.05)
        raise TimeoutError("ssh does not end")


def make_login(top: Path, patch: pytest.MonkeyPatch, *profile: str) -> Tuple[Login, str]:
    """Return a login node to which this user is connected, and what the login showed.

    profile: what bash reads there in place of the usual lines.
    """
    if SSHD is None:
        pytest.skip("openssh-server is not installed")
    node = Login(top, patch)
    if profile:
        node.profile(*profile)
    return node, node.login()
