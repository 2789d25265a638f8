"""The change that makes one training on several GPUs of a PyTorch program for one GPU.

Only the text is read. What it does not show, such as a model that another file makes, is left to
the user, in words.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Dict, Iterator, List, Optional, Set, Tuple, Union

from neuronctl.common.frozen import dataclass


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
        self.by_hand: List[str] = []
        self.functions: Dict[ast.AST, ast.AST] = {}
        self._note_functions(self.tree, self.tree)
        self.nodes = list(self.functions)
        self.statements = [node for node in self.nodes if isinstance(node, ast.stmt)]
        if any(isinstance(node, ast.Name) and node.id == "dist" for node in self.nodes):
            raise ValueError("the name dist is taken")

    def _note_functions(self, node: ast.AST, function: ast.AST) -> None:
        """Note the function around each node, in the order of the text."""
        for child in ast.iter_child_nodes(node):
            self.functions[child] = function
            own = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            self._note_functions(child, child if own else function)

    def changed(self) -> Optional[Change]:
        models = self._wrap_models()
        loaders, divided = self._divide_data()
        if not models and not divided:
            return None
        if not models:
            self.by_hand.append("wrap the model, once on its GPU, in DistributedDataParallel")
        if not divided and not self.by_hand:
            self.by_hand.append("split the data; it has no DataLoader with shuffle=True")
        self._set_epochs(loaders)
        self._save_once()
        self._take_own_gpu()
        self._begin_and_end(bool(models), divided)
        return Change(self._text(), tuple(self.by_hand))

    def _leave(self, node: Union[ast.expr, ast.stmt], what: str) -> None:
        """Note what is left to the user at a line of the unchanged program."""
        self.by_hand.append(f"line {node.lineno} before the change: {what}")

    def _wrap_models(self) -> Set[str]:
        """Wrap each model whose parameters an optimizer gets, once it is on its GPU."""
        saved = {node for save in self._saves() for node in ast.walk(save)}
        models: Dict[str, ast.stmt] = {}
        for statement in self.statements:
            for name in _optimized_models(statement):
                models.setdefault(name, statement)
        for name, optimizer in models.items():
            function, place = self.functions[optimizer], optimizer.lineno
            for statement in self.statements:
                if self.functions[statement] is function and _moves(statement, name):
                    place = max(place, (statement.end_lineno or 0) + 1)
            self._insert(place, optimizer, f"{name} = DistributedDataParallel({name})")
            for node in self.nodes:
                if not isinstance(node, ast.Attribute) or _dotted(node.value) != name:
                    continue
                later = self.functions[node] is function and node.lineno >= place
                if not _OF_THE_WRAPPER.fullmatch(node.attr) and (later or node in saved):
                    end = self._column(node.value, end=True)
                    self.edits.append((node.value.end_lineno or 0, end, 0, ".module"))
        return set(models)

    def _divide_data(self) -> Tuple[Set[str], bool]:
        """Give each shuffling DataLoader a sampler; return their names, and whether one has it."""
        names, divided = set(), False
        for call in self._calls("DataLoader"):
            words = {word.arg: word.value for word in call.keywords}
            value = words.get("shuffle")
            if value is None or (isinstance(value, ast.Constant) and not value.value):
                continue  # of an evaluation: each process looks at everything
            data = words.get("dataset", call.args[0] if call.args else None)
            if not isinstance(data, (ast.Name, ast.Attribute)):
                self._leave(call, "replace shuffle by a DistributedSampler")
                continue
            how = "" if isinstance(value, ast.Constant) else f", shuffle={ast.unparse(value)}"
            sampler = f"sampler=DistributedSampler({ast.unparse(data)}{how})"
            self._replace(value, sampler, back=len("shuffle="))
            divided = True
            names |= {
                _dotted(one.targets[0])
                for one in self.statements
                if isinstance(one, ast.Assign) and one.value is call
            }
        return names, divided

    def _set_epochs(self, loaders: Set[str]) -> None:
        """Call set_epoch in the loop over epochs around each loader."""
        for name in sorted(loaders):
            loops = [
                node
                for node in self.nodes
                if isinstance(node, ast.For)
                and isinstance(node.target, ast.Name)
                and "range(" in ast.unparse(node.iter)
                and any(_dotted(inner) == name for part in node.body for inner in ast.walk(part))
            ]
            if loops and name:
                first, epoch = loops[0].body[0], ast.unparse(loops[0].target)
                self._insert(first.lineno, first, f"{name}.sampler.set_epoch({epoch})  # shuffles")
            else:
                self.by_hand.append("call set_epoch(epoch) of the sampler before each epoch")

    def _saves(self) -> List[ast.Call]:
        return [call for call in self._calls("save") if _dotted(call.func) == "torch.save"]

    def _save_once(self) -> None:
        saves = self._saves()
        for statement in self.statements:
            if not isinstance(statement, ast.Expr) or statement.value not in saves:
                continue
            first, last = statement.lineno, statement.end_lineno or statement.lineno
            if self.lines[first - 1][: statement.col_offset].strip():
                self._leave(statement, "save on one process only, that of rank 0")
                continue
            self._insert(first, statement, "if dist.get_rank() == 0:")
            self.edits += [(line, 0, 0, self.step) for line in range(first, last + 1)]

    def _take_own_gpu(self) -> None:
        for node in self.nodes:
            if isinstance(node, ast.Constant) and node.value == "cuda:0":
                self._replace(node, '"cuda"')
            elif isinstance(node, ast.Constant) and node.value == "CUDA_VISIBLE_DEVICES":
                self._leave(node, "leave CUDA_VISIBLE_DEVICES to Slurm")
            elif isinstance(node, ast.Call) and node.args:
                name, last = _dotted(node.func), node.args[-1]
                if name == "torch.cuda.set_device" or (name == "torch.device" and node.args[1:]):
                    self._replace(last, _LOCAL_RANK)
                elif name.endswith(".cuda") and isinstance(last, ast.Constant):
                    self._replace(last, "")
        for call in self._calls("DataParallel"):
            self._leave(call, "leave out DataParallel")

    def _begin_and_end(self, wraps: bool, divides: bool) -> None:
        imports = [one for one in self.tree.body if isinstance(one, (ast.Import, ast.ImportFrom))]
        plain = [one for one in imports if isinstance(one, ast.Import)]
        known = {alias.asname or alias.name for one in plain for alias in one.names}
        lines = [f"import {name}" for name in ("os", "torch") if name not in known]
        lines.append("import torch.distributed as dist")
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
            "dist.init_process_group()  # torchrun passes ranks and address in variables",
        ]
        if any(isinstance(node, ast.Name) and node.id == "print" for node in self.nodes):
            begin += [
                "if dist.get_rank() > 0:",
                f"{self.step}print = lambda *words, **options: None  # rank 0 alone prints",
            ]
        end = "dist.destroy_process_group()"
        guards = [
            one
            for one in self.tree.body
            if isinstance(one, ast.If)
            and "__name__" in ast.unparse(one.test)
            and one.body[0].lineno > one.lineno
        ]
        if guards:
            inner = guards[-1].body
            for line in begin:
                self._insert(inner[0].lineno, inner[0], line)
            if not (isinstance(inner[-1], ast.Raise) or "exit(" in ast.unparse(inner[-1])):
                self._insert((inner[-1].end_lineno or 0) + 1, inner[-1], end)
        else:
            lines += ["", *begin]
            self.before.setdefault(len(self.lines) + 1, []).append(end)
        last = imports[-1].end_lineno or 1 if imports else 0
        self.before[last + 1] = lines + self.before.get(last + 1, [])

    def _calls(self, name: str) -> Iterator[ast.Call]:
        for node in self.nodes:
            if isinstance(node, ast.Call) and _dotted(node.func).rpartition(".")[2] == name:
                yield node

    def _insert(self, line: int, beside: ast.stmt, text: str) -> None:
        """Put a line before this one, as far in as a statement, which begins its own line."""
        indent = self.lines[beside.lineno - 1][: beside.col_offset]
        if indent.strip():
            raise ValueError("two statements on a line")
        self.before.setdefault(line, []).append(indent + text)

    def _replace(self, node: ast.expr, text: str, back: int = 0) -> None:
        """Replace a node of one line, and as many characters before it."""
        if node.lineno == node.end_lineno:
            first = self._column(node) - back
            self.edits.append((node.lineno, first, self._column(node, end=True) - first, text))

    def _column(self, node: ast.expr, end: bool = False) -> int:
        """Return the column in characters; the tree counts bytes."""
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
        for number, line_text in enumerate(lines, 1):
            made += [*self.before.get(number, []), line_text]
        return "\n".join([*made, *self.before.get(len(lines) + 1, [])]) + "\n"


def _dotted(node: ast.AST) -> str:
    """Return ``self.model`` of a name with its dots; "" for any other expression."""
    parts: List[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *parts[::-1]]) if isinstance(node, ast.Name) else ""


def _optimized_models(statement: ast.stmt) -> List[str]:
    """Return the models whose parameters a statement gives to an optimizer."""
    value: Union[ast.expr, None] = getattr(statement, "value", None)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or not isinstance(value, ast.Call):
        return []
    made = _dotted(value.func).rpartition(".")[2]
    return [
        _dotted(node.value)
        for node in ast.walk(value)
        if isinstance(node, ast.Attribute)
        and node.attr in ("parameters", "named_parameters")
        and _dotted(node.value)
        and made[:1].isupper()
    ]


def _moves(statement: ast.stmt, name: str) -> bool:
    """Return True if a statement moves a model to its GPU: ``model.to(device)``."""
    call = getattr(statement, "value", None)
    return isinstance(call, ast.Call) and _dotted(call.func) in (f"{name}.to", f"{name}.cuda")
