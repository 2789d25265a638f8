"""ssh without a password between the nodes, which horovodrun and mpirun start their parts with.

Keys and files are made in the sandbox and seen nowhere else; what the user has in ~/.ssh is
neither read by the nodes nor changed. Pure.
"""

from __future__ import annotations

from typing import Dict, List

from neuronctl.sandbox.layout import RUN

PROGRAMS = ("sshd", "ssh", "ssh-keygen")
DIRECTORY = f"{RUN}/ssh"
HOST_KEY = f"{DIRECTORY}/host_key"
CONFIG = "/etc/ssh/ssh_config"
"""Of the client; the sandbox lays its own over it."""

_USER_KEY = "id_ed25519"


def user_directory() -> str:
    """Where the user's key lies, hers alone."""
    return f"{RUN}/user/ssh"


def keygen_argv(path: str) -> List[str]:
    """Make a key without a passphrase at ``path``, and ``path``.pub."""
    return ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sandbox", "-f", path]


def user_key() -> str:
    """The path of the user's private key."""
    return f"{user_directory()}/{_USER_KEY}"


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
        "# A launcher opens one connection a process, all at once.",
        "MaxStartups 200",
    ]
    client = [
        "Host *",
        "    BatchMode yes",
        f"    IdentityFile {user_key()}",
        "    IdentitiesOnly yes",
        "    StrictHostKeyChecking no",
        "    UserKnownHostsFile /dev/null",
        "    LogLevel ERROR",
    ]
    return {"sshd_config": "\n".join(server) + "\n", "ssh_config": "\n".join(client) + "\n"}


def sshd_argv(program: str) -> List[str]:
    """sshd in the foreground; ``program`` is its full path, which it asks for."""
    return [program, "-D", "-e", "-f", f"{DIRECTORY}/sshd_config"]
