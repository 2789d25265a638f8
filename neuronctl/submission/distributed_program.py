"""The change that makes one training on several GPUs of a PyTorch program for one GPU.

Only the text is read. What it does not show, such as a model that another file makes, is left to
the user, in words.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Dict, Iterator, List, Optional, Tuple, Union

from neuronctl.common.datatypes import dataclass


@dataclass(frozen=True)
class Change:
    """text: the changed program. by_hand: what remains to be done, a sentence each."""

    text: str
    by_hand: Tuple[str, ...]


def distributed(text: str) -> Optional[Change]:
    """Return the change; None if the text shows neither a model with its optimizer nor its data."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            change = _Program(text).changed()
            ast.parse("" if change is None else change.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return change


_WRAPPER_HAS = (
    "train|eval|(named_)?(parameters|modules|buffers)|zero_grad|requires_grad_|to|cuda|no_sync|module"
    "|forward|apply|register_forward_hook"
)
"""What DistributedDataParallel passes on to the model or has itself; the rest is the model's."""

_ONE_PROCESS_ONLY = r"\bDataParallel\(|^torch\.cuda\.set_device|^torch\.device\(.*, |\.cuda\(\d+\)$"
"""Calls that choose GPUs where one process has all of them."""

_LOCAL_RANK = 'int(os.environ["LOCAL_RANK"])'


class _Program:
    """A program's lines, its tree, and the edits so far.

    Lines are bytes, as the tree counts them. edits: (line, column, bytes taken, text).
    """

    def __init__(self, text: str) -> None:
        self.lines = text.rstrip("\n").encode().split(b"\n")
        self.step = "\t" if "\n\t" in text else "    "
        self.tree = ast.parse(text)
        self.edits: List[Tuple[int, int, int, str]] = []
        self.by_hand: List[str] = []
        # In the order of the text: ast.walk() begins with all of the outermost statements.
        self.nodes = sorted(ast.walk(self.tree), key=lambda node: getattr(node, "lineno", 0))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.statements = [node for node in self.nodes if isinstance(node, ast.stmt)]
        self.names = {node.id for node in self.nodes if isinstance(node, ast.Name)}
        if "\r" in text or "dist" in self.names:
            raise ValueError("lines end as on Windows, or the name is taken")

    def _function(self, node: ast.AST) -> ast.AST:
        """Return the function around a node, or the program."""
        while node is not self.tree:
            node = self.parents[node]
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                break
        return node

    def changed(self) -> Optional[Change]:
        wraps = self._wrap_models()
        divides = self._divide_data()
        if not (wraps or divides):
            return None
        if not wraps:
            self.by_hand.insert(0, "wrap the model, once on its GPU, in DistributedDataParallel")
        if not divides and not self.by_hand:
            self.by_hand.append("split the data; it has no DataLoader with shuffle=True")
        self._save_once()
        self._take_own_gpu()
        self._begin_and_end(divides)
        lines = [*self.lines, b""]
        for line, column, taken, text in sorted(self.edits, key=lambda edit: edit[:2])[::-1]:
            old = lines[line - 1]
            lines[line - 1] = old[:column] + text.encode() + old[column + taken :]
        return Change(b"\n".join(lines).decode(), tuple(self.by_hand))

    def _wrap_models(self) -> bool:
        """Wrap each model whose parameters an optimizer gets, once it is on its GPU."""
        saved = {node for save in self._calls("save") for node in ast.walk(save)}
        models: Dict[str, ast.stmt] = {}
        for statement in self.statements:
            for name in _optimized_models(statement):
                models.setdefault(name, statement)
        for name, optimizer in models.items():
            function = self._function(optimizer)
            place = self._line_behind_moves(name, optimizer)
            self._insert(place, optimizer, f"{name} = DistributedDataParallel({name})")
            for node in self.nodes:
                if not isinstance(node, ast.Attribute) or _dotted(node.value) != name:
                    continue
                # The wrapper lacks the model's own attributes; saves keep the unwrapped names.
                is_wrapped = node.lineno >= place and self._function(node) is function
                if not re.fullmatch(_WRAPPER_HAS, node.attr) and (is_wrapped or node in saved):
                    self.edits.append((_end(node.value), _column(node.value), 0, ".module"))
        return bool(models)

    def _line_behind_moves(self, name: str, optimizer: ast.stmt) -> int:
        """Return the line of the optimizer, or the one behind a later ``model.to(device)``."""
        place = optimizer.lineno
        for statement in self.statements:
            call = getattr(statement, "value", None)
            moves = isinstance(call, ast.Call) and _dotted(call.func) == f"{name}.to"
            if moves and self._function(statement) is self._function(optimizer):
                place = max(place, _end(statement) + 1)
        return place

    def _divide_data(self) -> bool:
        """Give each shuffling DataLoader a sampler; return whether one has it."""
        divided = False
        for call in self._calls("DataLoader"):
            words = {word.arg: word.value for word in call.keywords}
            value = words.get("shuffle")
            data = words.get("dataset", call.args[0] if call.args else None)
            if value is None or (isinstance(value, ast.Constant) and not value.value):
                continue  # for evaluation, each process reads all data
            named = isinstance(data, (ast.Name, ast.Attribute))
            if data is None or not (isinstance(value, ast.Constant) and named):
                self._leave(call, "replace shuffle by a DistributedSampler")
                continue
            sampler = f"sampler=DistributedSampler({ast.unparse(data)})"
            self._replace(value, sampler, back=len("shuffle="))
            self._set_epoch(call)
            divided = True
        return divided

    def _set_epoch(self, call: ast.Call) -> None:
        """Call set_epoch in the loop over epochs around the loader of this call."""
        loader = self.parents[call]
        name = _dotted(loader.targets[0]) if isinstance(loader, ast.Assign) else ""
        for loop in self.nodes if name else ():
            if not (isinstance(loop, ast.For) and name in map(_dotted, ast.walk(loop))):
                continue
            if "range(" in ast.unparse(loop.iter):
                epoch = f"{name}.sampler.set_epoch({ast.unparse(loop.target)})  # shuffles"
                self._insert(loop.body[0].lineno, loop.body[0], epoch)
                return
        self.by_hand.append("call set_epoch(epoch) of the sampler before each epoch")

    def _save_once(self) -> None:
        saves = [call for call in self._calls("save") if _dotted(call.func) == "torch.save"]
        for statement in self.statements:
            if not isinstance(statement, ast.Expr) or statement.value not in saves:
                continue
            if self.lines[statement.lineno - 1][: statement.col_offset].strip():
                self._leave(statement, "save on one process only, that of rank 0")
                continue
            self._insert(statement.lineno, statement, "if dist.get_rank() == 0:")
            lines = range(statement.lineno, _end(statement) + 1)
            self.edits += [(line, 0, 0, self.step) for line in lines]

    def _take_own_gpu(self) -> None:
        for node in self.nodes:
            if isinstance(node, ast.Constant) and node.value == "cuda:0":
                self._replace(node, '"cuda"')
            elif isinstance(node, ast.Constant) and node.value == "CUDA_VISIBLE_DEVICES":
                self._leave(node, "leave CUDA_VISIBLE_DEVICES to Slurm")
            elif isinstance(node, ast.Call) and re.search(_ONE_PROCESS_ONLY, ast.unparse(node)):
                self._leave(node, "each process has one GPU, its current one: name no other")

    def _begin_and_end(self, divides: bool) -> None:
        """Begin the process group where the program begins, and end it where that ends."""
        begin = [
            "if torch.cuda.is_available():",
            f"{self.step}torch.cuda.set_device({_LOCAL_RANK})",
            "dist.init_process_group()  # torchrun passes ranks and address in variables",
        ]
        if "print" in self.names:
            alone = "print = lambda *words, **options: None  # rank 0 alone prints"
            begin += ["if dist.get_rank() > 0:", f"{self.step}{alone}"]
        end = "dist.destroy_process_group()"
        main = self._main_part()
        if main:
            for line in begin:
                self._insert(main[0].lineno, main[0], line)
            if not (isinstance(main[-1], ast.Raise) or "exit(" in ast.unparse(main[-1])):
                self._insert(_end(main[-1]) + 1, main[-1], end)
            begin = []
        else:
            self.edits.append((len(self.lines) + 1, 0, 0, f"{end}\n"))
        self._add_imports(divides, behind=begin)

    def _main_part(self) -> List[ast.stmt]:
        """Return the statements under the last ``if __name__ == "__main__":``; or none."""
        parts = [
            one.body
            for one in self.tree.body
            if isinstance(one, ast.If)
            and "__name__" in ast.unparse(one.test)
            and one.body[0].lineno > one.lineno
        ]
        return parts[-1] if parts else []

    def _add_imports(self, divides: bool, behind: List[str]) -> None:
        """Add the modules that the change needs, and the lines ``behind`` them."""
        imports = [one for one in self.tree.body if isinstance(one, (ast.Import, ast.ImportFrom))]
        # DDP imports torch.distributed.nn too; after init_process_group, it would keep hold of the
        # group, whose threads then abort some processes at their end (pytorch issue 190489).
        lines = [] if "import os" in map(ast.unparse, imports) else ["import os"]
        lines.append("import torch.distributed as dist")
        lines.append("import torch.distributed.nn  # before init_process_group")
        lines.append("from torch.nn.parallel import DistributedDataParallel")
        lines += ["from torch.utils.data import DistributedSampler"] if divides else []
        lines += ["", *behind] if behind else []
        place = _end(imports[-1]) + 1 if imports else 1
        self.edits.insert(0, (place, 0, 0, "\n".join([*lines, ""])))

    def _calls(self, name: str) -> Iterator[ast.Call]:
        for node in self.nodes:
            if isinstance(node, ast.Call) and _dotted(node.func).rpartition(".")[2] == name:
                yield node

    def _leave(self, node: Union[ast.expr, ast.stmt], what: str) -> None:
        """Note what the user must do at a line of the unchanged program."""
        self.by_hand.append(f"line {node.lineno} before the change: {what}")

    def _insert(self, line: int, beside: ast.stmt, text: str) -> None:
        """Insert a line before this one, with a statement's indentation."""
        indent = self.lines[beside.lineno - 1][: beside.col_offset].decode()
        if indent.strip():
            raise ValueError("two statements on a line")
        self.edits.append((line, 0, 0, f"{indent}{text}\n"))

    def _replace(self, node: ast.expr, text: str, back: int = 0) -> None:
        """Replace a node on one line, and ``back`` characters before it."""
        if node.lineno == node.end_lineno:
            first = node.col_offset - back
            self.edits.append((node.lineno, first, _column(node) - first, text))


def _end(node: Union[ast.expr, ast.stmt]) -> int:
    """Return the last line of a node."""
    return node.end_lineno or node.lineno


def _column(node: ast.expr) -> int:
    """Return the column after a node, in bytes."""
    return node.end_col_offset or node.col_offset


def _dotted(node: ast.AST) -> str:
    """Return a dotted name such as ``self.model``; "" for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    before = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{before}.{node.attr}" if isinstance(node, ast.Attribute) and before else ""


def _optimized_models(statement: ast.stmt) -> List[str]:
    """Return the models whose parameters a statement gives to an optimizer."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Call):
        return []
    optimizer = _dotted(value.func).rpartition(".")[2][:1].isupper()
    given = (_dotted(node).rpartition(".") for node in ast.walk(value) if optimizer)
    return [model for model, _, what in given if model and what.endswith("parameters")]
