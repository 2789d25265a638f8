"""What launchers need of a cluster: ssh between its nodes, and its modules."""

from __future__ import annotations

import pytest
from bench import cannot, job
from harness import Sandbox


@pytest.fixture(autouse=True)
def packages(sandbox: Sandbox) -> None:
    """The optional packages, without which there is nothing to test."""
    status = sandbox.status()
    if not (status["ssh"] and status["modules"]):
        cannot("openssh-server, openssh-client, environment-modules or procps is not installed")


def test_a_job_reaches_its_other_nodes_with_ssh_and_without_a_password(sandbox: Sandbox) -> None:
    log = job(sandbox, ["ssh gpu36 hostname", "ssh gpu36 ssh gpu35 hostname", "ssh gpu36 id -u"])
    assert log == ["gpu36", "gpu35", str(sandbox.status()["uid"])]


def test_nobody_comes_in_with_ssh_without_the_users_key(sandbox: Sandbox) -> None:
    plain = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"]
    options = [word for option in plain for word in ("-o", option)]
    none = sandbox.exec(["ssh", "-F", "none", *options, "gpu36", "true"], check=False)
    root = sandbox.exec(["ssh", "root@gpu36", "true"], check=False)
    assert (none.returncode, root.returncode) == (255, 255)
    assert "Permission denied (publickey)" in none.stderr
    assert "Permission denied (publickey)" in root.stderr


def test_ssh_leaves_nothing_in_the_users_home(sandbox: Sandbox) -> None:
    files = sandbox.exec(["sh", "-c", "ssh gpu36 true && ls -A ~"]).stdout.split()
    assert ".ssh" not in files and "known_hosts" not in files
