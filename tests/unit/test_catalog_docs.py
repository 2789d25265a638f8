"""docs/reference/catalog.md lists every key there is and no other, and its examples load."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List

import pytest

from neuronctl.catalog import cluster, loader, schema
from neuronctl.catalog.loader import merge
from neuronctl.common.errors import CatalogError
from neuronctl.common.yamlfile import parse, read

TABLES = {
    "## A cluster": cluster.Cluster,
    "## A partition": cluster.Partition,
    "## A QOS": cluster.Qos,
    "## Wall time": cluster.WallTime,
    "## Policy": cluster.Policy,
    "`comment`:": cluster.CommentPolicy,
    "`cores`:": cluster.CorePolicy,
    "network": cluster.Network,
    "login": cluster.Login,
    "containers": cluster.Containers,
    "## Price": cluster.Price,
}


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "reference" / "catalog.md").read_text(encoding="utf-8")


def test_every_key_has_its_row(page: str) -> None:
    documented: Dict[str, List[str]] = {}
    title = ""
    for line in page.splitlines():
        if line.startswith("## ") or re.fullmatch(r"`\w+`:", line):
            title = line
        elif line.startswith("| `"):
            mapping, _, key = line.split("`")[1].rpartition(".")
            documented.setdefault(mapping or title, []).append(key)
    documented["## A cluster"] += ["network", "login", "containers"]
    for title, kind in TABLES.items():
        assert sorted(documented[title]) == sorted(schema.fields(kind)), title


def test_its_examples_load(page: str) -> None:
    shipped = read(loader.data_path("partitions.yaml"), CatalogError)
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(examples) == 5
    for example in examples:
        catalog = merge([shipped, parse(example, "catalog.md", CatalogError)])
        assert 1 in {file for file, _ in catalog.places.values()}
