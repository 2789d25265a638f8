"""Judge from the text of a Python program and its local imports what its copies would do.

Nothing is run, and nothing is guessed: only if the whole program could be read is it certain that
all copies do the same.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from typing import Dict, FrozenSet, Iterator, List, Sequence, Set, Tuple, Union

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
"""Text of a program whose processes know of each other, or that uses several GPUs by itself."""

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
"""Text that may run other text, start other programs, or tell one copy from another."""

_ONE_DEVICE = r"\bTrainer\([^\n]*\bdevices=(?:1|'1'|\[0\])[,)]"
"""Lightning's trainer for one GPU, whatever the job has."""

_TRAINS = r"\.backward\(|GradientTape"


def judge_copies(name: str, search: Sequence[str], *, module: bool) -> str:
    """Return what the copies of a program do: ALONE, NO_SIGN, or "" if they may share the work.

    name: its file, or its module. search: the directories in which Python looks for its imports.
    """
    files = [name]
    if module:
        parts = name.split(".")
        # Python runs the module, or the __main__ of a package.
        files = [*_local_files(parts, search), *_local_files([*parts, "__main__"], search)]
        if not files:
            return ""
    is_complete, trains = True, False
    for text, is_known in _read_all(files, search):
        if re.search(_ONE_DEVICE, text):
            return NO_SIGN
        if re.search(_SIGNS, text):
            return ""
        trains = trains or bool(re.search(_TRAINS, text))
        is_complete = is_complete and is_known and not re.search(_OPAQUE, text)
    if trains:  # what was not read may share the work
        return ALONE if is_complete else NO_SIGN
    return NO_SIGN if is_complete else ""


def _read_all(files: Sequence[str], search: Sequence[str]) -> Iterator[Tuple[str, bool]]:
    """Yield the text of each file of a program, and whether it and its imports are known.

    An import is known if it is here, or is of a package that shares no work by itself.
    """
    waiting = [*files]
    files_read: Set[str] = set()
    while waiting:
        file = os.path.realpath(waiting.pop())
        if file in files_read:
            continue
        if len(files_read) == _MOST_FILES:
            yield "", False
            return
        files_read.add(file)
        text, imports, is_known = _read(file)
        for level, parts in imports:
            is_plain = parts[0] in _PLAIN
            # A plain package of PYTHONPATH shares no work either, and is not read.
            directories = search[:1] if is_plain else search
            if level:  # relative to the file: the directory, the one above, and so on
                directories = [os.path.normpath(os.path.join(file, *[os.pardir] * level))]
            imported = _local_files(parts, directories)
            waiting += imported
            is_installed = not imported and not level
            if is_installed and not (is_plain or parts[0] in own_modules()):
                is_known = False
        yield text, is_known


def _local_files(parts: Sequence[str], directories: Sequence[str]) -> List[str]:
    """Return the files of a local module and of its packages; none if they are not here."""
    for directory in directories:
        files: List[str] = []
        for at in range(len(parts)):
            path = os.path.join(directory, *parts[: at + 1])
            candidates = (os.path.join(path, "__init__.py"), f"{path}.py")
            files += [candidate for candidate in candidates if os.path.isfile(candidate)][:1]
        if files:
            return files
    return []


def _read(file: str) -> Tuple[str, List[Tuple[int, List[str]]], bool]:
    """Return a file's text without comments and docstrings, its imports, and if all was read.

    An import is the number of dots that it begins with, and the names between its other dots.
    """
    raw = b""
    try:
        with open_regular(file) as stream:
            raw = stream.read(LONGEST_PROGRAM)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(raw)
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
                node.value = ast.Constant(None)
        return ast.unparse(tree), list(_imports(tree)), len(raw) < LONGEST_PROGRAM
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        # It is in another Python's syntax, or too long; its words still count.
        return raw.decode("utf-8", "replace"), [], False


def _imports(tree: ast.AST) -> Iterator[Tuple[int, List[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            # A name may be a module of that package.
            yield from ((node.level, [*module, alias.name]) for alias in node.names)


_NAMES_RANK = r"(?i)rank|is_main|main_process|master|zero|primary|chief|\bgroup=|disabled"
"""Text of a condition, or of an argument of wandb.init, that tells one process from the others."""

_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


def wandb_init_line(text: str) -> int:
    """Return the line of the first wandb.init that every rank reaches, or 0.

    A condition, a decorator, or an argument that names the rank keeps the others out.
    """
    if "wandb.init" not in text or "WANDB_MODE" in text:
        return 0
    try:
        program = _Program(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    inits = [call for call in program.calls if ast.unparse(call.func) == "wandb.init"]
    lines = [call.lineno for call in inits if not program.is_for_some_ranks(call)]
    return min(lines, default=0)


class _Program:
    """The syntax tree of a program: its calls, and the ranks that reach them."""

    def __init__(self, tree: ast.Module) -> None:
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self.parents: Dict[ast.AST, ast.AST] = {}
        for node in ast.walk(tree):
            self.parents.update(dict.fromkeys(ast.iter_child_nodes(node), node))

    def is_for_some_ranks(self, call: ast.AST, within: FrozenSet[str] = frozenset()) -> bool:
        """Return True if only some ranks reach a call.

        within: the functions whose own calls are being judged. A call from one of them decides
        nothing, and counts as True.
        """
        if _names_rank(call):
            return True
        node = call
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, (ast.If, ast.IfExp)) and _names_rank(node.test):
                return True
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return node.name in within or self._is_called_by_some(node, within | {node.name})
        return False

    def _is_called_by_some(self, function: _Function, within: FrozenSet[str]) -> bool:
        """Return True if a function returns at once on other ranks, or only some ranks call it."""
        returns = [
            node.test
            for node in ast.walk(function)
            if isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Return, ast.Raise))
        ]
        if any(map(_names_rank, (*function.decorator_list, *returns))):
            return True
        name = function.name
        calls = [each for each in self.calls if ast.unparse(each.func).split(".")[-1] == name]
        return bool(calls) and all(self.is_for_some_ranks(call, within) for call in calls)


def _names_rank(node: ast.AST) -> bool:
    return re.search(_NAMES_RANK, ast.unparse(node)) is not None
