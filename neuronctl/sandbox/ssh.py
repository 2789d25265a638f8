"""Passwordless ssh between the nodes, which horovodrun and mpirun use to start processes.

Keys and files are created in the sandbox and visible only there; the nodes neither read nor change
the user's ~/.ssh. Pure.
"""

from __future__ import annotations

from typing import Dict, List

from neuronctl.sandbox.layout import RUN

PROGRAMS = ("sshd", "ssh", "ssh-keygen")
DIRECTORY = f"{RUN}/ssh"
HOST_KEY = f"{DIRECTORY}/host_key"
CONFIG = "/etc/ssh/ssh_config"
"""The client's configuration; the sandbox binds its own file over it."""

USER_DIRECTORY = f"{RUN}/user/ssh"
USER_KEY = f"{USER_DIRECTORY}/id_ed25519"
"""The user's private key, in a private directory."""


def keygen_argv(path: str) -> List[str]:
    """The command that creates a key without a passphrase at ``path`` and ``path``.pub."""
    return ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sandbox", "-f", path]


def files(user: str) -> Dict[str, str]:
    """sshd_config and ssh_config, by name in DIRECTORY."""
    server = [
        f"HostKey {HOST_KEY}",
        f"AuthorizedKeysFile {DIRECTORY}/authorized_keys",
        f"AllowUsers {user}",
        "AuthenticationMethods publickey",
        "UsePAM no",
        "PidFile none",
        "PrintMotd no",
        "# A launcher opens one connection per process, all at once.",
        "MaxStartups 200",
    ]
    client = [
        "Host *",
        "    BatchMode yes",
        f"    IdentityFile {USER_KEY}",
        "    IdentitiesOnly yes",
        "    StrictHostKeyChecking no",
        "    UserKnownHostsFile /dev/null",
        "    LogLevel ERROR",
    ]
    return {"sshd_config": "\n".join(server) + "\n", "ssh_config": "\n".join(client) + "\n"}


def sshd_argv(program: str) -> List[str]:
    """sshd in the foreground; ``program`` must be its full path."""
    return [program, "-D", "-e", "-f", f"{DIRECTORY}/sshd_config"]
