"""How large a model's weights are: as they lie here, or by the parameters in its name."""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os
import re
from typing import Iterator, Optional, Sequence, Tuple

from neuronctl.common.files import head

_PARAMETERS = r"(?i)(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z])"
"""Billions of parameters in a name: 7B, 0.5b, 8x7B; not the A3B of 30B-A3B."""

_BITS = ((r"fp8|int8|w8a8|8.?bit|q8", 1.0), (r"awq|gptq|int4|w4a16|4.?bit|q4|nvfp4|mxfp4", 0.5))
"""What a name says of a parameter's size in bytes."""


def model_size(model: Sequence[str]) -> Tuple[Optional[float], str]:
    """Return the bytes of the weights of a model (JobPlan.model), and what they are known from."""
    each, name, *words = model
    found = _files(name) or _of_ollama(name)
    if found:
        return sum(os.path.getsize(file) for file in found), "the files here"
    parameters = [
        int(experts or 1) * float(billions) for experts, billions in re.findall(_PARAMETERS, name)
    ]
    if not parameters:
        return None, "it is not downloaded here, and its name has no size"
    text = " ".join((name, *words)).lower()
    bytes_each = next((size for bits, size in _BITS if re.search(bits, text)), float(each))
    return max(parameters) * 1e9 * bytes_each, f"its name, at {bytes_each:g} bytes a parameter"


def _files(name: str) -> Sequence[str]:
    """Return the files with the weights: of a directory or file, or of Hugging Face's cache."""
    directories = [os.path.expanduser(name), *_snapshots(name)]
    for directory in directories:
        if name.endswith(".gguf") and os.path.isfile(directory):
            return (directory,)
        for kind in ("*.safetensors", "*.bin", "*.gguf"):
            found = glob.glob(os.path.join(glob.escape(directory), kind))
            # Mistral's models have all weights once more, in one file.
            shards = [
                file
                for file in found
                if os.path.isfile(file) and (len(found) == 1 or "consolidated." not in file)
            ]
            if shards:
                return shards
    return ()


def _snapshots(name: str) -> Iterator[str]:
    home = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
    cache = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        place = os.path.join(cache, "models--" + name.replace("/", "--"), "snapshots")
        with contextlib.suppress(OSError):
            yield from (os.path.join(place, revision) for revision in os.listdir(place))


def _of_ollama(name: str) -> Sequence[str]:
    """Return the file with the weights of a model that ollama has pulled."""
    place = os.environ.get("OLLAMA_MODELS") or os.path.expanduser("~/.ollama/models")
    path, _, tag = name.partition(":")
    path = path if "/" in path else f"library/{path}"
    manifest = os.path.join(place, "manifests", "registry.ollama.ai", path, tag or "latest")
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        layers = json.loads(head(manifest, 1 << 20))["layers"]
        kind = "application/vnd.ollama.image.model"
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == kind]
        blobs = [os.path.join(place, "blobs", digest.replace(":", "-")) for digest in digests]
        return [blob for blob in blobs if os.path.isfile(blob)]
    return ()


def gpus_of_model(model: Sequence[str], each: int, nodes: int) -> int:
    """Return how many of the job's GPUs, ``each`` per node, share the weights."""
    words = " ".join(model[2:])
    told = re.findall(r"(?:--(?:tensor|pipeline)-parallel-size|-tp|-pp)[= ](\d+)", words)
    return min(math.prod(map(int, told)), each * nodes) if told else each
