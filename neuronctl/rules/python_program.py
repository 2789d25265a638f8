"""What the text of a Python program shows of several processes: its own and its local imports'.

Nothing is run, and what the text does not show is not guessed: only of a program that was read as a
whole can it be said that its copies all do the same.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from typing import Iterator, List, Sequence, Set, Tuple, Union

from neuronctl.common.files import open_regular
from neuronctl.planning.software import LONGEST_PROGRAM, own_modules
from neuronctl.rules.base import ALONE, NO_SIGN

_MOST_FILES = 100

_SIGNS = (
    r"[Dd]istribute|(?<![A-Za-z])ddp|DDP|(?i:fsdp|deepspeed|horovod|lightning|nccl)|\bhvd|mpi4py|MPI"
    r"|(?i:accelerat(?:e|or))|process_group|all_?reduce|all_?gather|get_rank|torchelastic|gloo"
    r"|(?i:(?:local|global|node|[-_\"'])_?rank|world[-_]?size)|env://|\b(?:MASTER|SLURM|OMPI|PMI)_"
    r"|\b(?:ray|jax|flax|apex|dask|fairscale|xla|colossalai|megatron|composer|ignite|catalyst|paddle"
    r"|torch_xla|pmap|shard_map|torchrun|srun|mpirun|mpiexec)\b"
    r"|(?:transformers|trl|tf|tensorflow)\b[^\n]*(?:Trainer|Strategy)|\b(?:vllm|spawn|device_map)\b"
    r"|ShardedDataParallel|tensor_parallel|MirroredStrategy|cuda:1"  # nn.DataParallel: one process
)
"""What a program's text has if its processes know of each other, or one uses several GPUs."""

_PLAIN = """
torch torchvision torchaudio torchtext torchmetrics numpy scipy pandas sklearn skimage matplotlib
seaborn tqdm PIL cv2 imageio tifffile yaml h5py zarr einops numba networkx sympy tensorboard
tensorboardX wandb psutil rich click omegaconf albumentations tensorflow keras medmnist nltk pyarrow
polars requests
""".split()  # noqa: SIM905
"""Packages that start nothing and share nothing by themselves."""

_OPAQUE = (
    r"\b(?:exec|eval|compile|__import__|globals|getattr)\(|VISIBLE_DEVICES"
    r"|\b(?:importlib|runpy|subprocess|multiprocessing|concurrent|asyncio|sockets?|fcntl|uuid)\b"
    r"|\bos\.(?:getpid|uname|system|popen|fork|exec|spawn|rename|replace|link|O_EXCL)"
)
"""What may run other text, start others, or tell one copy from another."""

_ONE_DEVICE = r"\bTrainer\([^\n]*\bdevices=(?:1|'1'|\[0\])[,)]"
"""Lightning's trainer for one GPU, whatever the job has."""

_TRAINS = r"\.backward\(|GradientTape"


def python_program(name: str, search: Sequence[str], *, module: bool) -> str:
    """Return what the copies of a program do: ALONE, NO_SIGN, or "" if they may share the work.

    name: its file, or its module. search: the directories in which Python looks for its imports.
    """
    waiting, whole, trains = [name], True, False
    files_read: Set[str] = set()
    if module:
        parts = name.split(".")
        waiting = [*_local(parts, search), *_local([*parts, "__main__"], search)]
    while waiting:
        file = os.path.realpath(waiting.pop())
        if file in files_read:
            continue
        if len(files_read) == _MOST_FILES:
            whole = False
            break
        files_read.add(file)
        text, imports, is_whole = _read(file)
        if re.search(_ONE_DEVICE, text):
            return NO_SIGN
        if re.search(_SIGNS, text):
            return ""
        trains |= re.search(_TRAINS, text) is not None
        whole &= is_whole and not re.search(_OPAQUE, text)
        for level, parts in imports:
            above = file
            for _ in range(level):
                above = os.path.dirname(above)
            is_plain = parts[0] in _PLAIN
            places = search[:1] if is_plain else search
            files = _local(parts, [above] if level else places)
            waiting += files
            if not (files or level or is_plain or parts[0] in own_modules()):
                whole = False
    if trains and whole:
        return ALONE
    return NO_SIGN if trains or (files_read and whole) else ""


def _local(parts: Sequence[str], places: Sequence[str]) -> List[str]:
    """Return the files of a local module and of its packages; none if they are not here."""
    for place in places:
        files: List[str] = []
        for part in parts:
            place = os.path.join(place, part)
            both = (os.path.join(place, "__init__.py"), f"{place}.py")
            files += [path for path in both if os.path.isfile(path)][:1]
        if files:
            return files
    return []


def _read(file: str) -> Tuple[str, List[Tuple[int, List[str]]], bool]:
    """Return a file's text without comments and docstrings, its imports, and if all could be read.

    An import is (how many dots it begins with, the names between its dots).
    """
    raw = b""
    try:
        with open_regular(file) as stream:
            raw = stream.read(LONGEST_PROGRAM)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(raw)
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value = ast.Constant(None)
        return ast.unparse(tree), list(_imports(tree)), len(raw) < LONGEST_PROGRAM
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        # Another Python's syntax, or too long: the words still count.
        return raw.decode("utf-8", "replace"), [], False


def _imports(tree: ast.AST) -> Iterator[Tuple[int, List[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            # A name may be a module of that package.
            yield from ((node.level, [*module, alias.name]) for alias in node.names)


_CHOOSES = r"(?i)rank|is_main|main_process|master|zero|primary|chief|\bgroup=|disabled"
"""What tells one process from the others, in a condition or in the arguments of wandb.init."""


_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


def wandb_init_line(text: str) -> int:
    """Return the line of the first wandb.init that every rank reaches, or 0.

    A condition, a decorator, or an argument that names the rank keeps the others out.
    """
    if "wandb.init" not in text or "WANDB_MODE" in text:
        return 0
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    def is_kept(call: ast.AST, within: Set[str]) -> bool:
        """Return True if only some ranks reach a call. within: functions that it is called in."""
        if re.search(_CHOOSES, ast.unparse(call)):
            return True
        node = call
        while node in parents:
            node = parents[node]
            if isinstance(node, (ast.If, ast.IfExp)) and re.search(
                _CHOOSES, ast.unparse(node.test)
            ):
                return True
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return node.name in within or is_kept_function(node, {*within, node.name})
        return False

    def is_kept_function(function: _Function, within: Set[str]) -> bool:
        leaves = [
            node.test
            for node in ast.walk(function)
            if isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Return, ast.Raise))
        ]
        if any(
            re.search(_CHOOSES, ast.unparse(part)) for part in (*function.decorator_list, *leaves)
        ):
            return True
        used = [call for call in calls if ast.unparse(call.func).split(".")[-1] == function.name]
        return bool(used) and all(is_kept(call, within) for call in used)

    lines = (
        call.lineno
        for call in calls
        if ast.unparse(call.func) == "wandb.init" and not is_kept(call, set())
    )
    return min(lines, default=0)
