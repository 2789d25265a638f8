"""Common commands that run the rest of their words, or that only prepare."""

from __future__ import annotations

import re
from typing import FrozenSet, Mapping, Sequence, Tuple

LOOKS_OR_PREPARES: FrozenSet[str] = frozenset(
    """
    : . [ [[ alias awk basename break cat cd chmod conda continue cp curl cut date deactivate
    declare df dirname disown du echo env eval exec exit export false find free grep gunzip gzip
    head hostname id kill killall let ln local ls lscpu mail mailx mamba micromamba mkdir mktemp ml
    module mv nproc nvidia-smi pkill popd printenv printf ps pushd pwd read readlink realpath return
    rm rmdir rocm-smi rsync sacct sbatch scancel scontrol sed seff sendmail seq set shift shopt
    sleep sort source squeue sstat sync tail tar tee test times touch tr trap true type ulimit umask
    unalias uname unset uptime wait wc wget which whoami zip
    """.split()  # noqa: SIM905
)
"""Commands that are not the work for which a job was submitted."""

# Commands that run the rest of their words -> their options with a separate value.
_PREFIXES: Mapping[Tuple[str, ...], str] = {
    **{(name,): "" for name in ("nohup", "command", "builtin", "setsid", "catchsegv")},
    ("exec",): "-a",
    ("time",): "-f -o --format --output",
    ("sudo",): "-u -g -C -D -h -p -R -r -T -t -U",
    ("env",): "-u -C -S --unset --chdir",
    ("nice",): "-n --adjustment",
    ("stdbuf",): "-i -o -e --input --output --error",
    ("timeout",): "-k -s --kill-after --signal",
    ("taskset",): "",
    ("nsys", "profile"): "-o --output -e --env-var -t --trace -s --sample -c --capture-range -f "
    "--force-overwrite -w --show-output -x --stop-on-exit -d --duration -y --delay --stats",
    ("shifter",): "-i --image -m --module -V --volume -e --env -w --workdir --entrypoint",
    ("numactl",): "-i -p -P -m -w -N -C --interleave --preferred --membind --cpunodebind "
    "--physcpubind",
    ("uv", "run"): "-p --python --with --with-editable --with-requirements --extra --group "
    "--no-group --only-group --package --project --directory --env-file --index --index-url "
    "--extra-index-url --find-links --config-file --cache-dir",
    ("poetry", "run"): "",
    ("pixi", "run"): "-e --environment -p --platform --manifest-path",
    **{
        (name, "run"): "-n --name -p --prefix --cwd -r --root-prefix"
        for name in ("conda", "mamba", "micromamba")
    },
}
# Command -> how many words of its own, such as a time, precede the program.
_POSITIONAL = {"timeout": 1, "taskset": 1}


def names_python(word: str) -> bool:
    """Return True if a command's first word is Python: ``python``, ``/usr/bin/python3.11``."""
    return word.rpartition("/")[2].rstrip("0123456789.") == "python"


def python_runs(words: Sequence[str]) -> Tuple[str, str, int]:
    """Return how Python starts a program (``script``, ``m``, ``c``), its name, and an index.

    The index is that of the program's first argument; the name is "" if there is no program.
    """
    at = 1
    while at < len(words) and len(words[at]) > 1 and words[at].startswith("-"):
        option = words[at]
        at += 1
        if option == "--":
            break
        # The first letter that takes a value ends a word of short options: -um, -Wignore
        short = re.match(r"-(?!-)[^cmWX]*([cmWX])(.*)", option, re.DOTALL)
        letter, value = ("", "") if short is None else short.groups()
        takes_next = (letter and not value) or option == "--check-hash-based-pycs"
        if letter in ("c", "m"):
            name = "".join(words[at : at + 1]) if takes_next else value  # "" behind the last word
            return letter, name, at + 1 if takes_next else at
        if takes_next:
            at += 1
    return "script", "".join(words[at : at + 1]), at + 1


def program_at(words: Sequence[str]) -> int:
    """Return the index of the program that a command line finally runs; len(words) if none."""
    at = 0
    while at < len(words):
        name = words[at].rpartition("/")[2]
        command = (name, *words[at + 1 : at + 2])  # such as `uv run`
        if command not in _PREFIXES:
            command = (name,)
        if command not in _PREFIXES:
            break
        if name == "command" and words[at + 1 : at + 2] in (["-v"], ["-V"]):
            return len(words)  # it only looks for a program
        options_with_value = _PREFIXES[command].split()
        at += len(command)
        while at < len(words) and words[at].startswith("-") and words[at] != "--":
            at += 2 if words[at] in options_with_value else 1
        if at < len(words) and words[at] == "--":
            at += 1
        while name == "env" and at < len(words) and re.match(r"\w+=", words[at]):
            at += 1
        at += _POSITIONAL.get(name, 0)
    return min(at, len(words))
