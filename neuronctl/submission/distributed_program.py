"""Change a PyTorch program for one GPU so that it trains on several.

Only the program's text is read. What the text does not show, such as a model that another file
makes, is listed for the user to change by hand.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from neuronctl.common.datatypes import dataclass


@dataclass(frozen=True)
class Change:
    """A changed program. by_hand: what the user must still change, a sentence each."""

    text: str
    by_hand: Tuple[str, ...]


def distribute(text: str) -> Optional[Change]:
    """Return the changed text; None if it shows neither a model with its optimizer nor its data."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            change = _Program(text).change()
            ast.parse("" if change is None else change.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return change


_WRAPPER_HAS = (
    "train|eval|(named_)?(parameters|modules|buffers)|zero_grad|requires_grad_|to|cuda|no_sync|module"
    "|forward|apply|register_forward_hook"
)
"""Attributes that DistributedDataParallel has, or passes on to the model that it wraps."""

_ONE_PROCESS_ONLY = r"\bDataParallel\(|^torch\.cuda\.set_device|^torch\.device\(.*, |\.cuda\(\d+\)$"
"""Calls that choose one of several GPUs."""

_LOCAL_RANK = 'int(os.environ["LOCAL_RANK"])'


class _Edit(NamedTuple):
    line: int
    column: int
    length: int  # bytes that the text replaces
    text: str


class _Program:
    """A program's lines (of bytes, as the syntax tree counts), its tree, and the edits so far."""

    def __init__(self, text: str) -> None:
        self.lines = text.rstrip("\n").encode().split(b"\n")
        self.step = "\t" if "\n\t" in text else "    "
        self.tree = ast.parse(text)
        self.edits: List[_Edit] = []
        self.by_hand: List[str] = []
        # Sort by line, because ast.walk() begins with all of the outermost statements.
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

    def change(self) -> Optional[Change]:
        """Return the changed program; None if there is neither a model nor data to change."""
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
        lines = [*self.lines, b""]  # an edit may follow the last line
        in_order = sorted(self.edits, key=lambda edit: (edit.line, edit.column))
        for edit in reversed(in_order):  # so that the places of earlier edits stay right
            old = lines[edit.line - 1]
            end = edit.column + edit.length
            lines[edit.line - 1] = old[: edit.column] + edit.text.encode() + old[end:]
        return Change(b"\n".join(lines).decode(), tuple(self.by_hand))

    def _wrap_models(self) -> bool:
        """Wrap each model whose parameters an optimizer gets; return whether there is one."""
        models: Dict[str, ast.stmt] = {}
        for statement in self.statements:
            for name in _optimized_models(statement):
                models.setdefault(name, statement)
        for name, optimizer in models.items():
            line = self._line_behind_moves(name, optimizer)
            self._insert(line, optimizer, f"{name} = DistributedDataParallel({name})")
            self._unwrap_attributes(name, line, self._function(optimizer))
        return bool(models)

    def _unwrap_attributes(self, model: str, line: int, function: ast.AST) -> None:
        """Insert ``.module`` before a model's attributes that the wrapper lacks.

        The model is wrapped from ``line`` on in ``function``, and in each call of a save().
        """
        saved = {node for save in self._find_calls("save") for node in ast.walk(save)}
        for node in self.nodes:
            if not isinstance(node, ast.Attribute) or _dotted(node.value) != model:
                continue
            is_wrapped = node.lineno >= line and self._function(node) is function
            if not re.fullmatch(_WRAPPER_HAS, node.attr) and (is_wrapped or node in saved):
                self.edits.append(_Edit(_end(node.value), _column(node.value), 0, ".module"))

    def _line_behind_moves(self, name: str, optimizer: ast.stmt) -> int:
        """Return the line of the optimizer, or the line after a later ``model.to(device)``."""
        place = optimizer.lineno
        for statement in self.statements:
            call = getattr(statement, "value", None)
            moves = isinstance(call, ast.Call) and _dotted(call.func) == f"{name}.to"
            if moves and self._function(statement) is self._function(optimizer):
                place = max(place, _end(statement) + 1)
        return place

    def _divide_data(self) -> bool:
        """Give each shuffling DataLoader a sampler; return whether one has it."""
        is_divided = False
        for call in self._find_calls("DataLoader"):
            options = {option.arg: option.value for option in call.keywords}
            shuffle = options.get("shuffle")
            if shuffle is None or (isinstance(shuffle, ast.Constant) and not shuffle.value):
                continue  # for evaluation, each process reads all data
            data = options.get("dataset", call.args[0] if call.args else None)
            is_named = isinstance(data, (ast.Name, ast.Attribute))
            is_simple = is_named and isinstance(shuffle, ast.Constant)
            if data is None or not is_simple:
                self._leave(call, "replace shuffle by a DistributedSampler")
                continue
            sampler = f"sampler=DistributedSampler({ast.unparse(data)})"
            self._replace(shuffle, sampler, back=len("shuffle="))
            self._set_epoch(call)
            is_divided = True
        return is_divided

    def _set_epoch(self, call: ast.Call) -> None:
        """Call set_epoch in the loop over epochs that uses the loader of this call."""
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
        """Let only rank 0 run each statement that is a call of torch.save."""
        saves = [call for call in self._find_calls("save") if _dotted(call.func) == "torch.save"]
        for statement in self.statements:
            if not isinstance(statement, ast.Expr) or statement.value not in saves:
                continue
            before = self.lines[statement.lineno - 1][: statement.col_offset]
            if before.strip():  # another statement, such as an "if", on the same line
                self._leave(statement, "save on one process only, that of rank 0")
                continue
            self._insert(statement.lineno, statement, "if dist.get_rank() == 0:")
            lines = range(statement.lineno, _end(statement) + 1)
            self.edits += [_Edit(line, 0, 0, self.step) for line in lines]

    def _take_own_gpu(self) -> None:
        """Replace GPU 0 by the process's own; leave other choices of a GPU to the user."""
        for node in self.nodes:
            if isinstance(node, ast.Constant) and node.value == "cuda:0":
                self._replace(node, '"cuda"')
            elif isinstance(node, ast.Constant) and node.value == "CUDA_VISIBLE_DEVICES":
                self._leave(node, "leave CUDA_VISIBLE_DEVICES to Slurm")
            elif isinstance(node, ast.Call) and re.search(_ONE_PROCESS_ONLY, ast.unparse(node)):
                self._leave(node, "each process has one GPU, its current one: name no other")

    def _begin_and_end(self, divides: bool) -> None:
        """Add imports, and begin and end the process group, in the main part if there is one."""
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
        if not main:
            self.edits.append(_Edit(len(self.lines) + 1, 0, 0, f"{end}\n"))
            self._add_imports(divides, begin)
            return
        first, last = main[0], main[-1]
        for line in begin:
            self._insert(first.lineno, first, line)
        if not (isinstance(last, ast.Raise) or "exit(" in ast.unparse(last)):
            self._insert(_end(last) + 1, last, end)
        self._add_imports(divides)

    def _main_part(self) -> List[ast.stmt]:
        """Return the statements under the last ``if __name__ == "__main__":``, or none."""
        main: List[ast.stmt] = []
        for node in self.tree.body:
            if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
                main = node.body if node.body[0].lineno > node.lineno else main
        return main

    def _add_imports(self, divides: bool, then: Sequence[str] = ()) -> None:
        """Add the imports that the change needs, and the lines ``then`` after them."""
        imports = [
            node for node in self.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))
        ]
        # DDP imports torch.distributed.nn. After init_process_group, that module keeps the group
        # alive, whose threads abort some processes when they exit (pytorch issue 190489).
        lines = [] if "import os" in map(ast.unparse, imports) else ["import os"]
        lines.append("import torch.distributed as dist")
        lines.append("import torch.distributed.nn  # before init_process_group")
        lines.append("from torch.nn.parallel import DistributedDataParallel")
        lines += ["from torch.utils.data import DistributedSampler"] if divides else []
        lines += ["", *then] if then else []
        line = _end(imports[-1]) + 1 if imports else 1
        self.edits.insert(0, _Edit(line, 0, 0, "\n".join([*lines, ""])))

    def _find_calls(self, name: str) -> Iterator[ast.Call]:
        for node in self.nodes:
            if isinstance(node, ast.Call) and _dotted(node.func).rpartition(".")[2] == name:
                yield node

    def _leave(self, node: Union[ast.expr, ast.stmt], what: str) -> None:
        """Note what the user must do at a line of the unchanged program."""
        self.by_hand.append(f"line {node.lineno} before the change: {what}")

    def _insert(self, line: int, beside: ast.stmt, text: str) -> None:
        """Insert a line before line ``line``, indented as the statement ``beside``."""
        indent = self.lines[beside.lineno - 1][: beside.col_offset].decode()
        if indent.strip():
            raise ValueError("two statements on a line")
        self.edits.append(_Edit(line, 0, 0, f"{indent}{text}\n"))

    def _replace(self, node: ast.expr, text: str, back: int = 0) -> None:
        """Replace a node, and ``back`` characters before it; one of several lines stays."""
        if node.lineno == node.end_lineno:
            first = node.col_offset - back
            self.edits.append(_Edit(node.lineno, first, _column(node) - first, text))


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
    if not isinstance(node, ast.Attribute):
        return ""
    owner = _dotted(node.value)
    return f"{owner}.{node.attr}" if owner else ""


def _optimized_models(statement: ast.stmt) -> List[str]:
    """Return the models whose parameters a statement gives to an optimizer."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return []
    call = statement.value
    if not _dotted(call.func).rpartition(".")[2][:1].isupper():  # no class, such as Adam
        return []
    names = (_dotted(node).rpartition(".") for node in ast.walk(call))
    return [model for model, _, attribute in names if model and attribute.endswith("parameters")]
