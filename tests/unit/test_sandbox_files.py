"""Slurm's own files, as the sandbox writes them."""

from __future__ import annotations

import dataclasses
from typing import Dict, List

import pytest
from test_sandbox_layout import A100, CPU, cluster

from neuronctl.catalog.cluster import Partition, Policy
from neuronctl.sandbox import config_files, layout


def made(*partitions: Partition, **values: object) -> layout.Layout:
    return layout.build(cluster(*(partitions or (A100, CPU)), **values), {"cpu": 1})


def lines(text: str, start: str) -> List[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_an_odd_number_of_cores_is_one_socket() -> None:
    odd = dataclasses.replace(CPU, cores_per_node=(7,))
    text = config_files.cluster_conf(made(A100, odd), with_qos=True, pmix=True)
    assert "Sockets=1 CoresPerSocket=7 " in lines(text, "NodeName=cpu01")[0]


def test_the_default_partition_is_slurms_too() -> None:
    text = config_files.cluster_conf(made(default_partition="cpu"), with_qos=True, pmix=True)
    assert [line.split()[0] for line in lines(text, "PartitionName") if "Default=YES" in line] == [
        "PartitionName=cpu"
    ]


def test_no_setting_is_empty_which_slurm_does_not_read() -> None:
    for pmix in (True, False):
        text = config_files.cluster_conf(made(), with_qos=True, pmix=pmix)
        assert not [line for line in text.splitlines() if line.endswith("=")]
        assert ("MpiDefault=pmix\n" in text) == pmix


def running(user: str, uid: int, home: str) -> layout.Running:
    """A sandbox with this user, of which nothing else counts here."""
    text = {"cluster": "", "login_node": "", "account": "", "scratch": "", "root": "", "slurm": ""}
    return layout.Running(
        **{**text, "user": user, "uid": uid, "gid": uid, "home": home, "shell": "/bin/bash"},
        **{"pid": 0, "partitions": {}, "started": 0.0, "catalog": None, "binds": []},
        **dict.fromkeys(("ssh", "modules", "pmix"), False),
    )


def etc_files(its: layout.Running, passwd: str, group: str) -> Dict[str, str]:
    told = layout.Setup(made(), its, by_root=True, exposed=(), config={}, database_id=20001)
    return config_files.etc_files(told, passwd, group)


def test_a_made_user_is_added_and_a_known_one_is_changed() -> None:
    its = running("neuron", 20000, "/home01/neuron")
    files = etc_files(its, "root:x:0:0::/root:/bin/sh", "root:x:0:\n")
    assert files["passwd"].splitlines()[0] == "neuron:*:20000:20000::/home01/neuron:/bin/bash"
    assert files["passwd"].splitlines()[-1] == "root:x:0:0::/root:/bin/sh"
    assert files["group"].splitlines() == ["neuron:x:20000:", "root:x:0:"]
    again = etc_files(its, files["passwd"].replace(":*:", ":x:"), files["group"])
    assert again["passwd"].startswith("neuron:*:"), "there is no shadow file to look it up in"
    assert again["group"] == files["group"]


def test_the_database_has_a_user_of_its_own() -> None:
    """The machine's mysql may own real files."""
    files = etc_files(running("ada", 997, "/home/ada"), "mysql:x:998:100::/:/x\n", "log:x:999:\n")
    assert "sandbox-db:x:20001:20001::/nonexistent:/usr/sbin/nologin\n" in files["passwd"]


def test_what_the_site_requires_is_set() -> None:
    assert config_files.config_text(made().cluster) == "cluster: test\n"
    strict = made(policy=Policy(account_required=True, qos_required=True)).cluster
    assert config_files.config_text(strict) == "cluster: test\naccount: sandbox\nqos: normal\n"


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["gcc/11.5.0", "ngc/pytorch:24.12-py3"], ["gcc/11.5.0", "ngc/pytorch:24.12-py3"]),
        (["gcc", "gcc/11.5.0", "cuda"], ["gcc/11.5.0", "cuda"]),  # gcc stands for its versions
        (["../x", "/etc/x", "a/../b", "a b", "a}", "a//b", "", "-a", "x/"], []),  # no plain paths
    ],
)
def test_modules_with_a_file_of_their_name(names: List[str], files: List[str]) -> None:
    assert config_files.modulefiles(names) == dict.fromkeys(files, "#%Module1.0\n")
