"""JSON in the user's cache directory: values that take longer to work out than to read back.

A file is read back only if nobody but this user could have written it. A file that is missing,
damaged, from another version of neuronctl or not to be trusted counts as absent, so the directory
can be deleted at any time.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import zlib
from typing import Any, List, Mapping, Optional, Tuple, Type, TypeVar

from neuronctl.errors import NeuronctlError
from neuronctl.files import read_private, write_private
from neuronctl.frozen import is_frozen
from neuronctl.paths import cache_dir
from neuronctl.version import __version__

T = TypeVar("T")

NOT_RESTORED = (KeyError, TypeError, AttributeError)
"""What ``restored`` raises for data of another shape, such as that of an older class."""


def path_of(kind: str, name: str) -> str:
    """The file for the value called ``name`` among those of its kind."""
    number = zlib.crc32(name.encode("utf-8", "surrogateescape"))
    return os.path.join(cache_dir(), f"{kind}-{number:08x}.json")


def read(kind: str, name: str, source: str = "") -> Any:
    """The value that was written with the same name and the same source; None if there is none."""
    try:
        checksum, _, content = read_private(path_of(kind, name)).partition(b"\n")
        if int(checksum, 16) != zlib.crc32(content):
            return None
        kept = json.loads(content)
        if [kept["version"], kept["name"], kept["source"]] == [__version__, name, source]:
            return kept["value"]
    except (NeuronctlError, OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def write(kind: str, name: str, value: Any, source: str = "") -> None:
    """Keep a value of plain JSON types, made from ``source``; a failure costs nothing but time."""
    kept = {"version": __version__, "name": name, "source": source, "value": value}
    with contextlib.suppress(NeuronctlError, OSError, ValueError):
        content = json.dumps(kept).encode("ascii")
        write_private(path_of(kind, name), b"%08x\n%s" % (zlib.crc32(content), content))


def restored(kind: Type[T], data: Mapping[str, Any]) -> T:
    """The object of a frozen dataclass from which ``asdict`` and JSON made ``data``.

    A field holds a plain value or another such object, or a Tuple or a Mapping (by text) of either:
    ``Optional[Tuple[Limit, ...]]``, ``Mapping[str, Partition]``. What is inside of plain values
    stays as JSON has it. Raises NOT_RESTORED.
    """
    model: type = kind
    if data.keys() != model.__annotations__.keys():
        raise KeyError(kind.__name__)
    values = dict(data)
    for name, shape, part in _compounds(model):
        value = values[name]
        if shape is not None and not isinstance(value, shape):
            raise TypeError(name)
        if isinstance(value, list):
            each = value if part is None else [restored(part, one) for one in value]
            values[name] = tuple(each)
        elif part is not None and shape is dict:
            values[name] = {key: restored(part, one) for key, one in value.items()}
        elif part is not None and value is not None:
            values[name] = restored(part, value)
    return kind(**values)


_SHAPES = {"Mapping": dict, "Tuple": list}
_PLAIN = frozenset(("bool", "float", "int", "str", "Optional[int]", "Optional[str]"))


@functools.cache
def _compounds(kind: type) -> List[Tuple[str, Optional[type], Optional[type]]]:
    """The fields that hold no plain value: name, what JSON has for it, and the class of its parts.

    What JSON has is None where the field is one object or may be None. The class is None where the
    parts are plain.
    """
    found: List[Tuple[str, Optional[type], Optional[type]]] = []
    for name, annotation in kind.__annotations__.items():
        if annotation in _PLAIN:
            continue
        part = _class_in(kind, name)
        if part is not None or any(f"{shape}[" in annotation for shape in _SHAPES):
            found.append((name, _SHAPES.get(annotation.partition("[")[0]), part))
    return found


def _class_in(kind: type, name: str) -> Optional[type]:
    """The frozen dataclass in the annotation of a field; None where there is none."""
    found: Any = sys.modules[kind.__module__]
    words = kind.__annotations__[name].rstrip("]., ").replace("[", " ").split()
    for word in words[-1].split("."):
        found = getattr(found, word, None)
    return found if is_frozen(found) else None
