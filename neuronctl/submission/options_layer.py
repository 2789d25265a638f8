"""The options of one command line, or of one call of the library, as a layer of a request."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Sequence

from neuronctl.errors import UsageError
from neuronctl.request.job import Layer, Origin, Source
from neuronctl.request.options import OPTIONS


def options_layer(options: Mapping[str, Any], words: Sequence[str] = ()) -> Layer:
    """Parse options into a layer; raises UsageError.

    options: long option names, with ``_`` for ``-``, to a text, a boolean for a flag or a list of
    texts; None and an empty list mean "not given". words: the program and its arguments.
    """
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    for option in OPTIONS:
        value = options.get(option.long.replace("-", "_"))
        if value is None or value == ():
            continue
        if option.kind in ("flag", "switch"):
            texts = ["true" if value else "false"]
        else:
            texts = list(value) if option.kind == "list" else [value]
        if option.long == "env":
            texts = [_from_environment(text) for text in texts]
        try:
            fields = option.parse(texts)
        except ValueError as error:
            raise UsageError(f"--{option.long}: {error}", option.usage) from None
        for name, parsed in fields.items():
            origin = Origin(Source.ASKED, f"--{option.long}")
            if name in values and values[name] != parsed:
                raise UsageError(
                    f"{origin.where} and {origins[name].where} contradict each other",
                    "keep one of them",
                )
            values[name], origins[name] = parsed, origin
    if words:
        values["script"], values["args"] = _program(words[0]), tuple(words[1:])
        origins["script"] = origins["args"] = Origin(Source.ASKED, "SCRIPT")
    for text in words:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(
                f"the argument {text!r} is not valid UTF-8",
                "a job script is UTF-8 text: rename the file, or let the program read the value "
                "from a file",
            )
    return Layer(values, origins)


def _from_environment(text: str) -> str:
    """``NAME`` alone takes its value from this process, as in docker and sbatch."""
    if "=" in text or not text.isidentifier():
        return text
    if text not in os.environ:
        raise UsageError(
            f"--env: {text} is not exported in your shell",
            f"export it first, or give a value: --env {text}=VALUE",
        )
    return f"{text}={os.environ[text]}"


def _program(script: str) -> str:
    if not script:
        raise UsageError("SCRIPT is empty", "name the program to run")
    if script == ":":
        raise UsageError(
            "':' starts another component of a heterogeneous job, which neuronctl does not support",
            "submit such a job with sbatch itself",
        )
    # A program of this directory is not found through PATH on the nodes.
    if "/" not in script and not script.endswith(".py") and os.path.isfile(script):
        return f"./{script}"
    return script
