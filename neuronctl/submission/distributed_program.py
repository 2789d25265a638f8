"""The change that makes one training on several GPUs of a PyTorch program for one GPU.

Only the text is read. What it does not show, such as a model that another file makes, is left to
the user, in words.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple, Union

from neuronctl.common.frozen import dataclass


@dataclass(frozen=True)
class Change:
    """text: the changed program. by_hand: what remains to be done, a sentence each."""

    text: str
    by_hand: Tuple[str, ...]


def distributed(text: str) -> Optional[Change]:
    """The change; None where the text shows neither a model with its optimizer nor its data."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            change = _Program(text).changed()
            ast.parse("" if change is None else change.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return change


_Function = Union[ast.Module, ast.FunctionDef, ast.AsyncFunctionDef]

_OF_THE_WRAPPER = re.compile(
    "train|eval|(named_)?(parameters|modules|buffers)|zero_grad|requires_grad_|to|cuda|no_sync|module"
    "|forward|apply|register_forward_hook"
)
"""What DistributedDataParallel passes on to the model or has itself; the rest is the model's."""

_LOCAL_RANK = 'int(os.environ["LOCAL_RANK"])'


class _Program:
    """A program's text, its tree, and the edits so far: ``(line, column, columns taken, text)``."""

    def __init__(self, text: str) -> None:
        if "\r" in text:
            raise ValueError("lines end as on Windows")
        self.lines = text.rstrip("\n").split("\n")
        self.step = "\t" if "\n\t" in text else "    "
        self.tree = ast.parse(text)
        self.edits: List[Tuple[int, int, int, str]] = []
        self.before: Dict[int, List[str]] = {}
        self.end: List[str] = []
        self.by_hand: List[Tuple[int, str]] = []
        self.functions: Dict[ast.AST, _Function] = {}
        self._place(self.tree, self.tree)
        self.nodes = list(self.functions)
        taken = {node.id for node in self.nodes if isinstance(node, ast.Name)}
        self.dist = "torch_distributed" if "dist" in taken else "dist"

    def _place(self, node: ast.AST, function: _Function) -> None:
        """Note the function around each node, in the order of the text."""
        for child in ast.iter_child_nodes(node):
            self.functions[child] = function
            own = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            self._place(child, child if own else function)  # type: ignore[arg-type]

    def changed(self) -> Optional[Change]:
        models = self._wrap_models()
        loaders = self._divide_data()
        if not models and not loaders:
            return None
        if not models:
            self.by_hand.append(
                (0, "wrap the model, once it is on its GPU, in DistributedDataParallel")
            )
        if not loaders and not self.by_hand:
            self.by_hand.append((0, "divide the data: no DataLoader with shuffle=True is here"))
        self._set_epochs(loaders)
        self._save_once()
        self._take_own_gpu()
        self._begin_and_end(bool(models), bool(loaders))
        return Change(self._text(), tuple(map(self._place_words, self.by_hand)))

    def _by_hand(self, node: Union[ast.expr, ast.stmt], words: str) -> None:
        """Leave something to be done at the line of a node."""
        self.by_hand.append((node.lineno, words))

    def _place_words(self, place: Tuple[int, str]) -> str:
        """The line is the one of the changed program."""
        line, words = place
        above = sum(len(lines) for before, lines in self.before.items() if before <= line)
        return f"line {line + above} of the changed program: {words}" if line else words

    # ------------------------------------------------------------------------ the model

    def _wrap_models(self) -> Set[str]:
        saved = {node for save in self._saves() for node in ast.walk(save)}
        models: Dict[str, ast.stmt] = {}
        for statement in self._statements():
            for name in _optimized(statement):
                models.setdefault(name, statement)
        for name, optimizer in models.items():
            function, place = self.functions[optimizer], optimizer.lineno
            for statement in self._statements():
                if self.functions[statement] is function and _moves(statement, name):
                    place = max(place, (statement.end_lineno or 0) + 1)
            self._insert(place, optimizer, f"{name} = DistributedDataParallel({name})")
            for node in self.nodes:
                if not isinstance(node, ast.Attribute) or _dotted(node.value) != name:
                    continue
                later = self.functions[node] is function and node.lineno >= place
                if not _OF_THE_WRAPPER.fullmatch(node.attr) and (later or node in saved):
                    self._add(node.value, ".module")
        return set(models)

    # ------------------------------------------------------------------------- the data

    def _divide_data(self) -> Set[str]:
        loaders: Set[str] = set()
        for call in self._calls("DataLoader"):
            shuffle = next((word for word in call.keywords if word.arg == "shuffle"), None)
            given = [word.value for word in call.keywords if word.arg == "dataset"] + call.args[:1]
            value = None if shuffle is None else shuffle.value
            if shuffle is None and any(word.arg is None for word in call.keywords):
                self._by_hand(
                    call,
                    "give a training's DataLoader a DistributedSampler in place of shuffle",
                )
            if shuffle is None or value is None or (_is_constant(value) and not _truth(value)):
                continue  # of an evaluation: each process looks at everything
            data = self._named_data(call, given[0]) if given else ""
            if not data:
                self._by_hand(call, "replace shuffle by a DistributedSampler")
                continue
            how = "" if _is_constant(value) else f", shuffle={ast.unparse(value)}"
            sampler = f"sampler=DistributedSampler({data}{how})"
            self._replace(value, sampler, back=len("shuffle="))
            loaders |= self._targets(call)
        return loaders

    def _named_data(self, call: ast.Call, data: ast.expr) -> str:
        """A loader's data by a name, if need be a new one; "" where there can be none."""
        if isinstance(data, (ast.Name, ast.Attribute)):
            return ast.unparse(data)
        name = f"{next(iter(self._targets(call)))}_data"
        statement = next(
            (one for one in self._statements() if vars(one).get("value") is call), None
        )
        taken = any(isinstance(node, ast.Name) and node.id == name for node in self.nodes)
        if statement is None or taken or not name.isidentifier() or data.lineno != data.end_lineno:
            return ""
        if self.lines[statement.lineno - 1][: statement.col_offset].strip():
            return ""
        self._insert(statement.lineno, statement, f"{name} = {ast.unparse(data)}")
        self._replace(data, name)
        return name

    def _targets(self, call: ast.Call) -> Set[str]:
        for statement in self._statements():
            if isinstance(statement, ast.Assign) and statement.value is call:
                return {_dotted(statement.targets[0])}
        return {""}

    def _set_epochs(self, loaders: Set[str]) -> None:
        for name in sorted(loaders):
            loops = [
                node
                for node in self.nodes
                if isinstance(node, ast.For)
                and isinstance(node.target, ast.Name)
                and isinstance(node.iter, ast.Call)
                and "range" in ast.unparse(node.iter.func) + ast.unparse(node.iter)
                and any(_dotted(inner) == name for inner in _walk(node.body))
            ]
            if loops and name:
                first = loops[0].body[0]
                epoch = ast.unparse(loops[0].target)
                self._insert(first.lineno, first, f"{name}.sampler.set_epoch({epoch})  # shuffles")
            else:
                self.by_hand.append((0, "call set_epoch(epoch) of the sampler before each epoch"))

    # --------------------------------------------------------------- one writes, each its GPU

    def _saves(self) -> List[ast.Call]:
        return [call for call in self._calls("save") if _dotted(call.func) == "torch.save"]

    def _save_once(self) -> None:
        saves = self._saves()
        for statement in self._statements():
            if not isinstance(statement, ast.Expr) or statement.value not in saves:
                continue
            first, last = statement.lineno, statement.end_lineno or statement.lineno
            if self.lines[first - 1][: statement.col_offset].strip():
                self._by_hand(statement, "save on one process only, that of rank 0")
                continue
            self._insert(first, statement, f"if {self.dist}.get_rank() == 0:")
            self.edits += [(line, 0, 0, self.step) for line in range(first, last + 1)]

    def _take_own_gpu(self) -> None:
        for node in self.nodes:
            if isinstance(node, ast.Constant) and node.value == "cuda:0":
                self._replace(node, '"cuda"')
            elif isinstance(node, ast.Constant) and node.value == "CUDA_VISIBLE_DEVICES":
                self._by_hand(node, "leave CUDA_VISIBLE_DEVICES to Slurm")
            elif isinstance(node, ast.Call) and node.args and _is_constant(node.args[0]):
                name = _dotted(node.func)
                if name == "torch.cuda.set_device":
                    self._replace(node.args[0], _LOCAL_RANK)
                elif name.endswith(".cuda"):
                    self._replace(node.args[0], "")
                elif name == "torch.device" and len(node.args) == 2:
                    self._replace(node.args[1], _LOCAL_RANK)
        for call in self._calls("DataParallel"):
            self._by_hand(call, "leave out DataParallel")

    def _begin_and_end(self, wraps: bool, divides: bool) -> None:
        body, imports = (
            self.tree.body,
            [node for node in self.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))],
        )
        last = imports[-1].end_lineno or 1 if imports else 0
        known = {alias.asname or alias.name for node in imports for alias in node.names
                 if isinstance(node, ast.Import)}  # fmt: skip
        lines = [f"import {name}" for name in ("os", "torch") if name not in known]
        lines.append(f"import torch.distributed as {self.dist}")
        if wraps:
            # DDP imports it too; after init_process_group, it would keep hold of the group, whose
            # threads then abort some processes at their end (pytorch issue 190489).
            lines.append("import torch.distributed.nn  # before init_process_group")
            lines.append("from torch.nn.parallel import DistributedDataParallel")
        if divides:
            lines.append("from torch.utils.data import DistributedSampler")
        begin = [
            "if torch.cuda.is_available():",
            f"{self.step}torch.cuda.set_device({_LOCAL_RANK})",
            f"{self.dist}.init_process_group()  # torchrun tells by variables who the others are",
        ]
        guard = [
            node
            for node in body
            if isinstance(node, ast.If)
            and "__name__" in ast.unparse(node.test)
            and node.body[0].lineno > node.lineno
        ]
        end = f"{self.dist}.destroy_process_group()"
        if guard:
            inner = guard[-1].body
            for line in begin:
                self._insert(inner[0].lineno, inner[0], line)
            if not _leaves(inner[-1]):
                place = (inner[-1].end_lineno or 0) + 1
                self._insert(place, inner[-1], end)
        else:
            lines += ["", *begin]
            self.end.append(end)
        self.before[last + 1] = lines + self.before.get(last + 1, [])

    # --------------------------------------------------------------------------- the text

    def _statements(self) -> Iterator[ast.stmt]:
        return (node for node in self.nodes if isinstance(node, ast.stmt))

    def _calls(self, name: str) -> List[ast.Call]:
        found = [node for node in self.nodes if isinstance(node, ast.Call)]
        return [call for call in found if _dotted(call.func).rpartition(".")[2] == name]

    def _insert(self, line: int, beside: ast.stmt, text: str) -> None:
        """Put a line before this one, as far in as a statement, which begins its own line."""
        indent = self.lines[beside.lineno - 1][: beside.col_offset]
        if indent.strip():
            raise ValueError("two statements on a line")
        self.before.setdefault(line, []).append(indent + text)

    def _add(self, node: ast.expr, text: str) -> None:
        """Put text behind a node."""
        line = node.end_lineno or node.lineno
        self.edits.append((line, self._column(node, end=True), 0, text))

    def _replace(self, node: ast.expr, text: str, back: int = 0) -> None:
        """Replace a node of one line, and as many characters before it."""
        if node.lineno == node.end_lineno:
            first = self._column(node) - back
            self.edits.append((node.lineno, first, self._column(node, end=True) - first, text))

    def _column(self, node: ast.expr, end: bool = False) -> int:
        """The column in characters; the tree counts bytes."""
        line, column = node.lineno, node.col_offset
        if end:
            line, column = node.end_lineno or line, node.end_col_offset or column
        return len(self.lines[line - 1].encode()[:column].decode("utf-8", "replace"))

    def _text(self) -> str:
        lines = list(self.lines)
        for line, column, taken, text in sorted(self.edits, reverse=True):
            old = lines[line - 1]
            lines[line - 1] = old[:column] + text + old[column + taken :]
        made: List[str] = []
        for number, line_text in enumerate([*lines, ""], 1):
            made += self.before.get(number, [])
            made.append(line_text)
        return "\n".join([*made[:-1], *self.end]) + "\n"


def _dotted(node: ast.AST) -> str:
    """``self.model`` of a name with its dots; "" for any other expression."""
    parts: List[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *parts[::-1]]) if isinstance(node, ast.Name) else ""


def _walk(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield from ast.walk(statement)


def _optimized(statement: ast.stmt) -> List[str]:
    """The models whose parameters a statement gives to an optimizer."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or not isinstance(
        statement.value, ast.Call
    ):
        return []
    made = _dotted(statement.value.func).rpartition(".")[2]
    return [
        _dotted(node.value)
        for node in ast.walk(statement.value)
        if isinstance(node, ast.Attribute)
        and node.attr in ("parameters", "named_parameters")
        and _dotted(node.value)
        and made[:1].isupper()
    ]


def _moves(statement: ast.stmt, name: str) -> bool:
    """Whether a statement moves a model to its GPU: ``model.to(device)``."""
    if not isinstance(statement, (ast.Expr, ast.Assign)):
        return False
    call = statement.value
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("to", "cuda")
        and _dotted(call.func.value) == name
    )


def _leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Raise) or "exit(" in ast.unparse(statement)


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)
