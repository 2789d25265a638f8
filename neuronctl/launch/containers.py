"""How each container runtime is put around what runs on the nodes."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Callable, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.shell import CommandWord, Shell
from neuronctl.request.job import JobRequest


@dataclass(frozen=True)
class Wrapping:
    """A container's additions to a launch."""

    before: Tuple[str, ...] = ()  # lines that the batch shell runs first, after the user's own
    prefix: Tuple[CommandWord, ...] = ()  # words before what runs in each task
    srun: Tuple[CommandWord, ...] = ()  # options of srun, if Slurm starts the container (Pyxis)


Wrap = Callable[[JobRequest, Optional[Shell], str], Wrapping]
"""Its arguments are the request, the user's scratch directory as shell text (or None), and the
option that passes the node's GPUs in: ``--nv``, ``--rocm``, or "" without GPUs."""


def _singularity(
    command: str, request: JobRequest, scratch: Optional[Shell], gpus: str
) -> Wrapping:
    before: Tuple[str, ...] = ()
    # By itself, the runtime binds the home directory, but not scratch, and not always $PWD.
    if scratch is not None:
        before = (
            "# Scratch and this directory; binding one twice gives a warning per process.",
            f'export BINDS="{scratch}"; [ "$PWD" = "$BINDS" ] || BINDS+=",$PWD"',
        )
    words: List[CommandWord] = [command, "exec"]
    if gpus and not {"--nv", "--rocm"} & set(request.container_options):
        words.append(gpus)
    words += request.container_options
    for bind in (Shell('"$PWD"' if scratch is None else '"$BINDS"'), *request.binds):
        words += ["--bind", bind]
    words += ["--pwd", Shell('"$PWD"'), request.container or ""]
    return Wrapping(before=before, prefix=tuple(words))


def _pyxis(request: JobRequest, scratch: Optional[Shell], gpus: str) -> Wrapping:
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
    """Escape ``text`` for double quotes."""
    return re.sub(r'([\\"$`])', r"\\\1", text)


RUNTIMES: Mapping[str, Wrap] = {
    "singularity": partial(_singularity, "singularity"),
    "apptainer": partial(_singularity, "apptainer"),
    "pyxis": _pyxis,
}
"""The name of a container runtime -> the function that returns its additions to a launch."""


def find_image(image: str, directories: Sequence[str], here: str = "") -> str:
    """Return the path of an image; a bare name that is no file here is one in ``directories``.

    If none of them has the image (on another machine, say), the path is in the first one. A name
    with a ``/`` stays as it is, as does that of a registry (``ubuntu:22.04``). A file here that is
    not a SIF gets a ``./``, by which Pyxis recognizes a file. here: the job's directory, if it is
    not this process's.
    """
    if os.path.exists(os.path.join(here, image)):
        return image if image.startswith((".", "/")) or image.endswith(".sif") else f"./{image}"
    if "/" in image or ":" in image or not directories:
        return image
    paths = [f"{directory.rstrip('/')}/{image}" for directory in directories]
    return next((path for path in paths if os.path.exists(path)), paths[0])
