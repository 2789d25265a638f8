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

    options: long option names, with ``_`` for ``-``, to a text, a boolean for a flag or a list of
    texts; None and an empty list mean "not given". words: the program and its arguments, or only
    arguments, for a program that is named elsewhere. body: shell text, steps: several programs, in
    place of the one.
    """
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    for option in OPTIONS:
        value = options.get(option.long.replace("-", "_"))
        if value is None or value == ():
            continue
        if option.is_flag:
            texts = ["true" if value is True else "false"]
        else:
            texts = list(value) if option.kind == "list" else [value]
        if option.long == "env":
            texts = [_fill_from_environment(text) for text in texts]
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


def _program(words: Sequence[str]) -> Dict[str, Any]:
    """Return the fields for a program and its arguments."""
    if not words:
        return {}
    refuse_other_dash(words[0])
    words = ["python", *words] if words[0] == "-m" else words
    if is_argument(words[0]):
        return {"args": tuple(words)}
    return {"script": words[0], "args": tuple(words[1:])}


def is_argument(word: str) -> bool:
    """Return True if the first word after the options begins with a dash, as no program does."""
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
    """Raise UsageError for a word that begins with a dash that is not ASCII's."""
    dash = other_dash(word[:1])
    if dash:
        raise UsageError(
            f"'{word}' begins with {dash}, not with '-'", f"type {replace_other_dashes(word)}"
        )


def _fill_from_environment(text: str) -> str:
    """Give ``NAME`` alone its value from this process, as docker and sbatch do."""
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
    """Return the words of a command line with the same options as a program's call."""
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
    """Return a program and its arguments from a call of the library."""
    if isinstance(args, str):
        raise UsageError(f"args: expected a list of texts, got {args!r}", 'give ["A", "B"]')
    words = [] if script is None else [os.fspath(script), *args]
    for word in words:
        if not isinstance(word, str):
            raise UsageError(f"args: expected texts, got {word!r}", f"give it as '{word}'")
    return words


def texts_of(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Return a program's options as the command line has them: texts, booleans, and lists."""
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
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{option.long}: expected True or False, got {value!r}")
        return value
    if option.kind != "list":
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if isinstance(value, Mapping):
        return [f"{name}={item}" for name, item in value.items()]
    return [value] if isinstance(value, str) else [str(item) for item in value]
