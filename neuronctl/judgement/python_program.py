"""What the text of a Python program shows of several processes: its own and its local imports'.

Nothing is run, and what the text does not show is not guessed: only of a program that was read as a
whole can it be said that its copies all do the same.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from typing import List, Optional, Sequence, Set

from neuronctl.common.files import open_regular
from neuronctl.planning.software import LONGEST_PROGRAM, own_modules
from neuronctl.rules.base import Copies

_MOST_FILES = 100

# In a name, also a module's, if processes know of each other.
_SIGN = (
    r"[Dd]istribute|(?:^|[^A-Za-z])ddp|DDP|fsdp|FSDP|deepspeed|DeepSpeed|horovod|Horovod"
    r"|(?:^|_)(?:hvd|mpi|MPI)(?:_|4py|$)|accelerat(?:e|or)|Accelerat(?:e|or)|lightning|Lightning"
    r"|process_group|all_?reduce|all_?gather|(?:local|global|node)_?rank|LOCAL_?RANK|world_?size"
    r"|WORLD_?SIZE|get_rank|torchelastic|nccl|NCCL|^(?:ray|jax|flax|apex|dask|fairscale|xla)$"
    r"|^(?:colossalai|megatron|composer|ignite|catalyst|paddle|torch_xla|pmap|shard_map)$"
)
_SIGN_IN_STRING = (
    r"(?:\w+_)?(?:RANK|LOCAL_?ID|PROCID|NODEID|WORLD_SIZE|NTASKS|NPROCS)|MASTER_(?:ADDR|PORT)"
    r"|(?:SLURM|OMPI|PMI|PMIX|HOROVOD|MV2|MPI)_\w+|--?(?:local|global|node)?[-_]?rank|env://.*"
    r"|--?world[-_]size|nccl|gloo|mpi|ddp\w*|fsdp\w*|deepspeed\w*|torch\.distributed\S*"
    r"|(?:.*[ /])?(?:torchrun|srun|mpirun|mpiexec|horovodrun|accelerate)\b.*"
)
# Classes with which a package shares the work by itself.
_SHARING_CLASS = r"(?:Trainer|Strategy|Fabric)$"

# Packages that start nothing and share nothing, unless one of these names is used.
_PLAIN = """
torch torchvision torchaudio torchtext torchmetrics numpy scipy pandas sklearn skimage matplotlib
seaborn tqdm PIL cv2 imageio tifffile yaml h5py zarr einops numba networkx sympy tensorboard
tensorboardX wandb psutil rich click omegaconf albumentations tensorflow keras medmnist nltk pyarrow
polars requests
""".split()  # noqa: SIM905
# What may run other text, start others, or tell one copy from another.
_OPAQUE_MODULES = """
importlib runpy subprocess multiprocessing concurrent asyncio socket socketserver sqlite3 fcntl mmap
ctypes uuid secrets code pty http xmlrpc platform
""".split()  # noqa: SIM905
_OPAQUE_NAMES = frozenset(("exec", "eval", "compile", "__import__", "globals"))
_OPAQUE_IN_OS = (
    r"getpid|uname|system|popen|fork\w*|exec\w+|(?:posix_)?spawn\w*|renames?|replace|link|symlink"
    r"|mkfifo|O_EXCL|urandom"
)


def python_program(name: str, search: Sequence[str], *, module: bool) -> str:
    """What is known of a program that starts several times: one of Copies.

    name: its file, or its module. search: the directories in which Python looks for its imports.
    """
    reader = _Reader(search)
    parts = name.split(".")
    reader.read([*reader.local(parts), *reader.local([*parts, "__main__"])] if module else [name])
    if reader.shared or not reader.files:
        return Copies.SHARED if reader.shared else Copies.UNKNOWN
    if reader.whole:
        return Copies.ALONE if reader.trains else Copies.NO_SIGN
    return Copies.NO_SIGN if reader.trains else Copies.UNKNOWN


class _Reader:
    """Reads a program file by file, and keeps what it has found.

    shared, trains: whether it shows signs of several processes, and of training. whole: whether
    everything was read, and nothing in it can distinguish one copy from another.
    """

    def __init__(self, search: Sequence[str]) -> None:
        self.search = search
        self.shared = self.trains = False
        self.whole = True
        self.files: Set[str] = set()

    def read(self, files: Sequence[str]) -> None:
        """Read these files, and the local ones that they import."""
        waiting = list(files)
        while waiting and not self.shared:
            file = os.path.realpath(waiting.pop())
            if file in self.files:
                continue
            if len(self.files) == _MOST_FILES:
                self.whole = False
                return
            self.files.add(file)
            for node in self._nodes(file):
                waiting += self._look_at(node, file)

    def local(self, parts: Sequence[str], places: Optional[Sequence[str]] = None) -> List[str]:
        """The files of a local module and of the packages around it; none if it is not here."""
        for place in self.search if places is None else places:
            files: List[str] = []
            for part in parts:
                place = os.path.join(place, part)
                both = (os.path.join(place, "__init__.py"), f"{place}.py")
                files += [path for path in both if os.path.isfile(path)][:1]
            if files:
                return files
        return []

    def _nodes(self, file: str) -> List[ast.AST]:
        """What stands in a file, without comments and docstrings."""
        text = b""
        try:
            with open_regular(file) as stream:
                text = stream.read(LONGEST_PROGRAM)
            self.whole &= len(text) < LONGEST_PROGRAM
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                nodes = list(ast.walk(ast.parse(text)))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            # Of another Python, or too long: its words are there all the same.
            self.whole = False
            words = set(re.findall(r"\w+", text.decode("utf-8", "replace")))
            return [ast.Name(word) for word in words]
        said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        return [node for node in nodes if not (isinstance(node, ast.Constant) and id(node) in said)]

    def _look_at(self, node: ast.AST, file: str) -> List[str]:
        """Note what a node shows; the local files that it imports."""
        if isinstance(node, ast.Import):
            return [path for alias in node.names for path in self._imported(alias.name, (), [])]
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            above = file
            for _ in range(node.level):
                above = os.path.dirname(above)
            return self._imported(node.module or "", names, [above] if node.level else [])
        if isinstance(node, ast.Constant):
            text = node.value if isinstance(node.value, str) else ""
            self.shared |= re.fullmatch(_SIGN_IN_STRING, text) is not None
            self.whole &= "VISIBLE_DEVICES" not in text
        elif isinstance(node, ast.Attribute):
            self._name(node.attr)
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            self._of_module(base, node.attr)
        elif isinstance(node, ast.Name):
            self._name(node.id)
            self.whole &= node.id not in _OPAQUE_NAMES
            if node.id == "getattr":
                self.whole = False
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            self._name(node.name)
        elif isinstance(node, (ast.arg, ast.keyword)):
            self._name(node.arg or "")
        return []

    def _name(self, name: str) -> None:
        self.shared |= re.search(_SIGN, name) is not None
        self.trains |= name in ("backward", "GradientTape")

    def _of_module(self, module: str, name: str) -> None:
        """Note a name that is a module's own."""
        if module == "os" and re.fullmatch(_OPAQUE_IN_OS, name):
            self.whole = False
        if module in ("transformers", "tf", "tensorflow") and re.search(_SHARING_CLASS, name):
            self.shared = True

    def _imported(self, module: str, names: Sequence[str], places: List[str]) -> List[str]:
        """The local files of an import. places: those of a relative one."""
        parts = module.split(".") if module else []
        top = parts[0] if parts else ""
        # A package of that name which PYTHONPATH leads to is the package itself.
        where = places or (self.search[:1] if top in _PLAIN else self.search)
        files = self.local(parts, where)
        files += [path for name in names for path in self.local([*parts, name], where)]
        for part in (*parts, *names):
            self._name(part)
        if files or places:
            self.whole &= bool(files)
            return files
        for name in names:
            self._of_module(top, name)
            self.shared |= re.search(_SHARING_CLASS, name) is not None
        known = top in _PLAIN or (top in own_modules() and top not in _OPAQUE_MODULES)
        self.whole &= known and module != "torch.multiprocessing"
        return []
