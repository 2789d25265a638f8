"""How a container is put around what runs on each node: one small entry per runtime."""

from __future__ import annotations

import os
import re
from typing import Callable, Mapping, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.shell import CommandWord, Shell
from neuronctl.request.job import JobRequest


@dataclass(frozen=True)
class Wrapping:
    """The additions of a container to a launch.

    before: lines that the batch shell runs first, after the user's own. prefix: words before what
    runs in each task. srun: options of srun, where Slurm itself starts the container (Pyxis).
    """

    before: Tuple[str, ...] = ()
    prefix: Tuple[CommandWord, ...] = ()
    srun: Tuple[CommandWord, ...] = ()


Wrap = Callable[[JobRequest, Optional[Shell], bool], Wrapping]
"""Given the request, the user's scratch directory as shell text (or None), and whether the node's
GPUs are passed in."""


def _singularity(command: str) -> Wrap:
    def wrap(request: JobRequest, scratch: Optional[Shell], gpus: bool) -> Wrapping:
        words: Tuple[CommandWord, ...] = (command, "exec")
        if gpus and "--rocm" not in request.container_options:
            words += ("--nv",)
        words += request.container_options
        # By itself the runtime binds the home directory, but not scratch, and $PWD not always.
        before: Tuple[str, ...] = ()
        if scratch is not None:
            before = (
                "# Scratch and this directory; binding one twice gives a warning per process.",
                f'export BINDS="{scratch}"; [ "$PWD" = "$BINDS" ] || BINDS+=",$PWD"',
            )
        words += ("--bind", Shell('"$BINDS"' if before else '"$PWD"'))
        for bind in request.binds:
            words += ("--bind", bind)
        last = ("--pwd", Shell('"$PWD"'), request.container or "")
        return Wrapping(before=before, prefix=(*words, *last))

    return wrap


def _pyxis(request: JobRequest, scratch: Optional[Shell], gpus: bool) -> Wrapping:
    mounts = [f"{scratch}:{scratch}"] if scratch is not None else []
    mounts += ["$PWD:$PWD", *map(_quoted, request.binds)]
    return Wrapping(
        srun=(
            f"--container-image={request.container}",
            Shell(f'--container-mounts="{",".join(mounts)}"'),
            Shell('--container-workdir="$PWD"'),
            *request.container_options,
        )
    )


def _quoted(text: str) -> str:
    """``text`` as it is written inside double quotes."""
    return re.sub(r'([\\"$`])', r"\\\1", text)


RUNTIMES: Mapping[str, Wrap] = {
    "singularity": _singularity("singularity"),
    "apptainer": _singularity("apptainer"),
    "pyxis": _pyxis,
}
"""Container runtime -> what it adds to a launch."""

# The architecture field of a SIF header, as `uname -m` names it.
_SIF_ARCH = {b"01": "i686", b"02": "x86_64", b"03": "armv7l", b"04": "aarch64", b"05": "ppc64"}
_ELF_ARCH = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 21: "ppc64"}


def sif_arch(head: bytes) -> Optional[str]:
    """Return the architecture of a SIF image, from its first 64 bytes; None if they name none.

    A SIF header is a 32-byte launch line, the magic ``SIF_MAGIC``, a version and the
    architecture (two digits), each ended by a NUL.
    """
    if head[32:41] != b"SIF_MAGIC":
        return None
    return _SIF_ARCH.get(head[45:47])


def elf_arch(head: bytes) -> Optional[str]:
    """Return the architecture of an ELF program, from its first 20 bytes; else None."""
    if head[:4] != b"\x7fELF" or len(head) < 20:
        return None
    order = "little" if head[5] == 1 else "big"
    return _ELF_ARCH.get(int.from_bytes(head[18:20], order))  # type: ignore[arg-type]


def find_image(image: str, directories: Sequence[str], here: str = "") -> str:
    """Return the path of an image; look a bare name that is no file here up in ``directories``.

    If none of them has it (on another machine, say), the path is that in the first one. A name
    with a ``/`` stays as it is, and so does that of a registry (``ubuntu:22.04``). A file here
    that is not a SIF gets a ``./``, by which Pyxis recognises a file. here: the job's directory,
    where that is not this process's.
    """
    if os.path.exists(os.path.join(here, image)):
        return image if image.startswith((".", "/")) or image.endswith(".sif") else f"./{image}"
    if "/" in image or ":" in image or not directories:
        return image
    paths = [f"{directory.rstrip('/')}/{image}" for directory in directories]
    return next((path for path in paths if os.path.exists(path)), paths[0])
