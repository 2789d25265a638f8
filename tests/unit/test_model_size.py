"""How large a model is, and whether it fits the job's GPUs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest
from plan_builders import cluster, plan_of

from neuronctl.catalog.model import Catalog
from neuronctl.rules import RuleContext, apply_rules
from neuronctl.rules.local_facts import gather_local_facts
from neuronctl.rules.model_size import gpus_of_model, model_size


def lie(file: Path, size: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as stream:
        stream.truncate(size)  # takes no space


@pytest.mark.parametrize(
    ("name", "words", "size"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", (), 14e9),
        ("llama3:70b", (), 140e9),
        ("mistralai/Mixtral-8x7B-v0.1", (), 112e9),
        ("Qwen/Qwen3-30B-A3B", (), 60e9),
        ("Qwen/Qwen2.5-0.5B", (), 1e9),
        ("TheBloke/Llama-2-13B-AWQ", (), 6.5e9),
        ("x/Llama-8B-FP8", (), 8e9),
        ("x/Llama-8B", ("--quantization", "fp8"), 8e9),
        ("gpt2", (), None),
        ("google/bert-b", (), None),
        ("--help", (), None),
        ("", (), None),
        ("../../etc/passwd", (), None),
        ("한국어-7B", (), 14e9),
    ],
)
def test_by_the_name(
    name: str, words: tuple[str, ...], size: Optional[float], clean_home: Path
) -> None:
    assert model_size(("2", name, *words))[0] == size


def test_by_the_files(clean_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "my-7B [x]"
    lie(own / "model-1.safetensors", 3)
    lie(own / "model-2.safetensors", 4)
    lie(own / "consolidated.safetensors", 7)
    lie(own / "pytorch_model.bin", 9)
    assert model_size(("2", str(own))) == (7, "the files here")
    lie(tmp_path / "one.gguf", 5)
    assert model_size(("2", str(tmp_path / "one.gguf")))[0] == 5
    cache = clean_home / ".cache/huggingface/hub/models--a--b-7B/snapshots/0123"
    lie(cache / "model.safetensors", 11)
    (cache / "gone.safetensors").symlink_to("nowhere")
    assert model_size(("2", "a/b-7B"))[0] == 11
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert model_size(("2", "a/b-7B"))[0] == 14e9


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"layers": 3}', '{"layers": [1]}', "\0"])
def test_what_ollama_has_pulled(text: str, clean_home: Path) -> None:
    place = clean_home / ".ollama/models"
    kind = "application/vnd.ollama.image."
    layers = [
        {"mediaType": kind + "model", "digest": "sha256:ab"},
        {"mediaType": kind + "license", "digest": "sha256:cd"},
    ]
    manifest = place / "manifests/registry.ollama.ai/library/llama3/8b"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"layers": layers}))
    lie(place / "blobs/sha256-ab", 40)
    lie(place / "blobs/sha256-cd", 2)
    assert model_size(("0.5", "llama3:8b"))[0] == 40
    manifest.write_text(text)
    assert model_size(("0.5", "llama3:8b"))[0] == 4e9


def test_gpus_that_share_the_weights() -> None:
    assert gpus_of_model(("2", "m"), 8, 2) == 8
    assert gpus_of_model(("2", "m", "--tensor-parallel-size=4"), 8, 2) == 4
    assert gpus_of_model(("2", "m", "-tp", "8", "--pipeline-parallel-size", "2"), 8, 2) == 16
    assert gpus_of_model(("2", "m", "-tp", "8"), 1, 1) == 1


def finding(model: str, gpus: int, memory: Optional[int] = 80) -> tuple[str, str]:
    plan = plan_of(gpus_per_node=gpus)
    partition = replace(plan.partition, gpu_memory_gb=memory)
    where = cluster(partitions={"gpu": partition})
    plan = replace(plan, model=("2", model) if model else (), partition=partition, cluster=where)
    context = RuleContext(plan, Catalog({"toy": where}, "toy", ()), gather_local_facts(plan))
    found = [one for one in apply_rules(context) if one.code == "NC135"]
    return (found[0].severity, f"{found[0].message}; {found[0].hint}") if found else ("", "")


def test_both_figures_are_said(clean_home: Path) -> None:
    severity, text = finding("x/m-7B", 1)
    assert severity == "note"
    assert "14.0 GB" in text and "1 GPU of gpu has 80 GB" in text
    severity, text = finding("x/m-70B", 1)
    assert severity == "warning" and "do not fit; request 4 GPUs" in text
    assert finding("x/m-70B", 4)[0] == "note"
    assert "fit; take a partition with larger ones" in finding("x/m-405B", 8)[1]
    severity, text = finding("x/m-35B", 1)
    assert severity == "warning" and "KV cache" in text
    severity, text = finding("gpt2", 1)
    assert severity == "note" and "not sure" in text and "80 GB" in text
    severity, text = finding("x/m-7B", 1, None)
    assert severity == "note" and "the catalog does not say" in text
    severity, text = finding("x/m-7B", 0)
    assert severity == "note" and "0 GPUs" in text
    assert finding("", 1) == ("", "")
