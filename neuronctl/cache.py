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
from typing import Any, Mapping, Optional, Type, TypeVar

from neuronctl.errors import NeuronctlError
from neuronctl.files import read_private, write_private
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
    """The object of a frozen dataclass from which ``dataclasses.asdict`` and JSON made ``data``.

    A field holds a plain value or another such object, or a Tuple or a Mapping (by text) of either:
    ``Optional[Tuple[Limit, ...]]``, ``Mapping[str, Partition]``. Raises NOT_RESTORED.
    """
    model: type = kind
    annotations = model.__annotations__
    if data.keys() != annotations.keys():
        raise KeyError(kind.__name__)
    values = dict(data)
    for name, value in data.items():
        shape = annotations[name].partition("[")[0]
        if shape in _SHAPES and not isinstance(value, _SHAPES[shape]):
            raise TypeError(name)
        if isinstance(value, (dict, list)):
            values[name] = _restored(value, _class_in(model, name), shape)
    return kind(**values)


_SHAPES = {"Mapping": dict, "Tuple": list}


def _restored(value: Any, part: Optional[type], shape: str) -> Any:
    if isinstance(value, list):
        return tuple(value) if part is None else tuple(restored(part, one) for one in value)
    if part is None:
        return value
    if shape == "Mapping":
        return {key: restored(part, one) for key, one in value.items()}
    return restored(part, value)


@functools.cache
def _class_in(kind: type, name: str) -> Optional[type]:
    """The dataclass in the annotation of a field; None where there is none."""
    found: Any = sys.modules[kind.__module__]
    words = kind.__annotations__[name].rstrip("]., ").replace("[", " ").split()
    for word in words[-1].split("."):
        found = getattr(found, word, None)
    return found if hasattr(found, "__dataclass_fields__") else None
