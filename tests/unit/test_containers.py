"""The architecture of an image and of a program, from their headers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from plan_builders import GPU, cluster, plan_of

from neuronctl.judgement.local_facts import gather_local_facts
from neuronctl.launch.containers import elf_arch, find_image, sif_arch
from neuronctl.rules.base import Fault, Kind


def sif(arch: bytes) -> bytes:
    return (
        b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + arch + b"\0" + b"\0" * 80
    )


def elf(machine: int, order: str = "little") -> bytes:
    start = b"\x7fELF\x02" + (b"\x01" if order == "little" else b"\x02") + b"\x01" + b"\0" * 9
    return start + b"\x02\0" + machine.to_bytes(2, order) + b"\0" * 44  # type: ignore[arg-type]


@pytest.mark.parametrize(("arch", "name"), [(b"02", "x86_64"), (b"04", "aarch64"), (b"99", None)])
def test_sif(arch: bytes, name: str) -> None:
    assert sif_arch(sif(arch)) == name


@pytest.mark.parametrize("head", [b"", b"hsqs" + b"\0" * 60, b"SIF_MAGIC"])
def test_what_is_no_sif_has_none(head: bytes) -> None:
    assert sif_arch(head) is None


def test_elf() -> None:
    assert (elf_arch(elf(62)), elf_arch(elf(183)), elf_arch(elf(21, "big"))) == (
        "x86_64",
        "aarch64",
        "ppc64",
    )
    assert (elf_arch(b""), elf_arch(b"\x7fELF"), elf_arch(b"#!/bin/sh" + b" " * 60)) == (
        None,
        None,
        None,
    )
    import platform

    assert elf_arch(Path(sys.executable).read_bytes()[:64]) == platform.machine()


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_software_of_the_other_architecture_is_refused(
    arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    Path("x86.sif").write_bytes(sif(b"02"))
    Path("arm.sif").write_bytes(sif(b"04"))
    for name, machine in (("x86", 62), ("arm", 183)):
        Path(name, "bin").mkdir(parents=True)
        Path(name, "bin", "python").write_bytes(elf(machine))
    where = cluster(partitions={"gpu": dataclasses.replace(GPU, arch=arch)})
    for kind, names in (("container", ("x86.sif", "arm.sif")), ("venv", ("x86", "arm"))):
        for name in names:
            made = plan_of(where, partition="gpu", script="train.py", **{kind: name})
            wrong = ("x86" in name) != (arch == "x86_64")
            found = [
                arch
                for _, arch in gather_local_facts(made).built_for
                if arch != made.partition.arch
            ]
            assert bool(found) == wrong, (kind, name, arch)


def test_a_bare_image_name_is_sought_in_the_sites_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("site").mkdir()
    Path("site/there.sif").touch()
    Path("here.sif").touch()
    places = ["/nowhere", f"{tmp_path}/site"]
    assert find_image("there.sif", places) == f"{tmp_path}/site/there.sif"
    assert find_image("here.sif", places) == "here.sif"
    assert find_image("none.sif", places) == "/nowhere/none.sif"
    assert find_image("./none.sif", places) == "./none.sif"
    assert find_image("none.sif", []) == "none.sif"


def test_pyxis_knows_a_file_by_its_first_character_and_all_else_is_a_registrys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("images").mkdir()
    Path("images/torch").touch()
    assert find_image("images/torch", ["/site"]) == "./images/torch"
    for name in ("nvcr.io#nvidia/pytorch:24.12-py3", "nvidia/cuda:12", "ubuntu:22.04"):
        assert find_image(name, ["/site"]) == name
        for runtime, fault in (("pyxis", None), ("singularity", Fault(Kind.MISSING, name))):
            made = plan_of(container=name, container_runtime=runtime, launcher="srun")
            assert gather_local_facts(made).image == fault
    for name in ("./none", "images/none.sqsh"):
        made = plan_of(container=name, container_runtime="pyxis", launcher="srun")
        assert gather_local_facts(made).image == Fault(Kind.MISSING, name)
