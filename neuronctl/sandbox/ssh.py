"""Passwordless ssh between the nodes, which horovodrun and mpirun use to start processes.

The key and the files are created in the sandbox and visible only there; the nodes neither read nor
change the user's ~/.ssh. Pure.
"""

from __future__ import annotations

from typing import Dict

from neuronctl.sandbox.layout import RUN

KEY = f"{RUN}/ssh-key"
"""The private key of all hosts; its public half is beside it."""

USER_KEY = f"{RUN}/user/ssh-key"
"""The user's own copy."""

KEYGEN = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sandbox", "-f", KEY)

_SERVER = f"""\
HostKey {KEY}
AuthorizedKeysFile {KEY}.pub
AllowUsers USER
AuthenticationMethods publickey
UsePAM no
PidFile none
PrintMotd no
# A launcher opens one connection per process, all at once.
MaxStartups 200
"""

_CLIENT = f"""\
Host *
    BatchMode yes
    IdentityFile {USER_KEY}
    IdentitiesOnly yes
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
"""


def etc_files(user: str) -> Dict[str, str]:
    """The configuration of server and client, by name below /etc."""
    server = _SERVER.replace("USER", user)
    return {"ssh/sshd_config": server, "ssh/ssh_config": _CLIENT}
