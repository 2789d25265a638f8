"""The options and words of one command line, or of one call of the library, as a layer."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from neuronctl.common.errors import UsageError, did_you_mean
from neuronctl.common.spelling import caller_name
from neuronctl.common.words import other_dash, replace_other_dashes
from neuronctl.request.job import BY_NAME, OPTIONS, Body, Layer, Origin, Source, StepRequest
from neuronctl.request.options import Option


def options_layer(
    options: Mapping[str, Any],
    words: Sequence[str] = (),
    body: Optional[Body] = None,
    steps: Tuple[StepRequest, ...] = (),
) -> Layer:
    """Parse options into a layer; raises UsageError.

    options: long option name, with ``_`` for ``-`` -> a text, a boolean for a flag, or a list of
    texts; None and () mean "not given". words: the program and its arguments, or only arguments for
    a program that is named elsewhere. body, steps: shell text, or several programs, in place of one
    program.
    """
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    for option in OPTIONS:
        value = options.get(option.long.replace("-", "_"))
        if value is None or value == ():
            continue
        origin = Origin(Source.ASKED, f"--{option.long}")
        for name, parsed in _read_option(option, value).items():
            if name in values and values[name] != parsed:
                raise UsageError(
                    f"{origin.where} and {origins[name].where} contradict each other",
                    "keep one of them",
                )
            values[name], origins[name] = parsed, origin
    program = _program(words)
    if steps:
        program["steps"] = steps
    if body is not None and body.text:
        program["body"] = body.text
    if body is not None and body.file:
        program["text_file"] = body.file
    for name, value in program.items():
        where = "SCRIPT" if name in ("script", "args") else f"--{name}"
        values[name], origins[name] = value, Origin(Source.ASKED, where)
    if sum(name in values for name in ("script", "body", "steps")) > 1:
        raise UsageError("SCRIPT, --body, and steps contradict each other", "keep one of them")
    check_utf8(values.get("args", ()))
    return Layer(values, origins)


def _read_option(option: Option, value: Any) -> Dict[str, Any]:
    """Return the fields that an option's value sets; raise UsageError."""
    if option.is_flag:
        texts = ["true" if value is True else "false"]
    else:
        texts = list(value) if option.kind == "list" else [value]
    if option.long == "env":
        texts = [_fill_from_environment(text) for text in texts]
    try:
        return option.parse(texts)
    except ValueError as error:
        raise UsageError(f"--{option.long}: {error}", option.usage) from None


def _program(words: Sequence[str]) -> Dict[str, Any]:
    """Return the fields for a program and its arguments, or for arguments alone."""
    if not words:
        return {}
    first, *others = words
    refuse_other_dash(first)
    if first == "-m":
        return {"script": "python", "args": tuple(words)}
    if is_argument(first):
        return {"args": tuple(words)}
    return {"script": first, "args": tuple(others)}


def is_argument(word: str) -> bool:
    """Return True for a first word that begins with a dash, as no program does, except ``-m``."""
    return len(word) > 1 and word.startswith("-") and word != "-m"


def check_utf8(words: Sequence[str]) -> None:
    """Raise UsageError for a word that no script can hold."""
    for text in words:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(
                f"the argument {text!r} is not valid UTF-8",
                "a job script is UTF-8 text: rename the file, or let the program read the value "
                "from a file",
            )


def refuse_other_dash(word: str) -> None:
    """Raise UsageError for a word that begins with another dash than ASCII's."""
    dash = other_dash(word[:1])
    if dash:
        raise UsageError(
            f"'{word}' begins with {dash}, not with '-'", f"type {replace_other_dashes(word)}"
        )


def _fill_from_environment(text: str) -> str:
    """Return NAME=VALUE; ``NAME`` alone gets its value from this process, as with docker."""
    if "=" in text or not text.isidentifier():
        return text
    if text in os.environ:
        return f"{text}={os.environ[text]}"
    if caller_name():
        raise UsageError(
            f"--env: {text} is not exported on {caller_name()}; your own machine's variables are "
            "not sent",
            f"export it in ~/.bash_profile there, or give a value: --env {text}=VALUE",
        )
    raise UsageError(
        f"--env: {text} is not exported in your shell",
        f"export it first, or give a value: --env {text}=VALUE",
    )


def words_of(options: Mapping[str, Any]) -> List[str]:
    """Return the words of a command line that has the same options as a call of the library."""
    words = []
    for name, value in texts_of(options).items():
        long = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{long}" if value else f"--no-{long}")
        else:
            texts = value if isinstance(value, list) else [value]
            words += [f"--{long}={text}" for text in texts]
    return words


def program_words(script: Union[str, os.PathLike[str], None], args: Sequence[str]) -> List[str]:
    """Return the words of the program and its arguments in a call of the library."""
    if isinstance(args, str):
        raise UsageError(f"args: expected a list of texts, got {args!r}", 'give ["A", "B"]')
    words = [] if script is None else [os.fspath(script), *args]
    for word in words:
        if not isinstance(word, str):
            raise UsageError(f"args: expected texts, got {word!r}", f"give it as '{word}'")
    return words


def texts_of(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the options of a call as the command line has them: texts, booleans, and lists."""
    texts: Dict[str, Any] = {}
    for name, value in options.items():
        option = BY_NAME.get(name.replace("_", "-"))
        if option is None:
            names = [long.replace("-", "_") for long in BY_NAME]
            raise UsageError(f"no such option: {name}", did_you_mean(name, names))
        if value is not None:
            texts[name] = _text(option, value)
    return texts


def _text(option: Option, value: Any) -> Any:
    """Return an option's value as the command line has it."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{option.long}: expected True or False, got {value!r}")
        return value
    if option.kind != "list":
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if isinstance(value, Mapping):
        return [f"{name}={item}" for name, item in value.items()]
    return [value] if isinstance(value, str) else [str(item) for item in value]
