"""A mistake in a site's file: what ships holds, a warning says so, and two commands find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuronctl import doctor
from neuronctl.catalog import loader
from neuronctl.common.errors import SITE_FAULTS, CatalogError, NeuronctlError, UsageError
from neuronctl.diagnosis import knowledge, log_search
from neuronctl.launch import launchers
from neuronctl.serving import recipes

SRUN = "{#\ndistributed: yes\none_task_per_node: no\n#}\n{% block each %}mysrun{% endblock %}\n"
RECIPE = "title: mine\ncommand: run it\nready: ask /\n"
CAUSE = "own:\n  patterns: odd thing\n  means: it is odd\n"


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a site's files."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for kind in ("launchers", "recipes"):
        (tmp_path / "templates" / kind).mkdir(parents=True)
    monkeypatch.setattr(launchers, "SITE_DIRECTORY", str(tmp_path / "templates"))
    monkeypatch.setattr(knowledge, "SITE_FILE", str(tmp_path / "causes.yaml"))
    monkeypatch.setattr(loader, "SITE_FILE", str(tmp_path / "partitions.yaml"))
    SITE_FAULTS.clear()
    knowledge.entries.cache_clear()
    launchers.forget()
    return tmp_path


def warnings() -> str:
    return "\n".join(SITE_FAULTS)


def test_a_typo_in_the_sites_causes_leaves_the_shipped_ones(etc: Path) -> None:
    (etc / "causes.yaml").write_text(CAUSE.replace("means", "meens"))
    found = log_search.search(["CUDA out of memory"])
    assert found is not None and found.kind == "cuda-out-of-memory"
    assert "causes.yaml:3: own: unknown key 'meens'" in warnings()
    knowledge.entries.cache_clear()


def test_a_typo_in_the_users_own_causes_is_an_error(etc: Path) -> None:
    own = etc / "config" / "neuronctl" / "causes.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(CAUSE.replace("means", "meens"))
    with pytest.raises(CatalogError, match="meens"):
        knowledge.entries()


def test_a_typo_in_a_sites_launcher_leaves_the_shipped_one(etc: Path) -> None:
    file = etc / "templates" / "launchers" / "srun.j2"
    file.write_text(SRUN.replace("yes", "yess"))
    launchers.forget()
    assert launchers.load("srun").file != str(file)
    assert str(file) in warnings()
    assert "srun" in {launcher.name for launcher in launchers.every()}


def test_a_launcher_that_only_the_site_has(etc: Path) -> None:
    (etc / "templates" / "launchers" / "mine.j2").write_text(SRUN.replace("yes", "yess"))
    with pytest.raises(UsageError, match="unknown launcher 'mine'"):
        launchers.load("mine")
    assert "mine.j2:2: distributed" in warnings()


def test_a_typo_in_a_sites_recipe_leaves_the_shipped_one(etc: Path) -> None:
    file = etc / "templates" / "recipes" / "jupyter.yaml"
    file.write_text(RECIPE.replace("ready", "redy"))
    assert recipes.load("jupyter").title != "mine" and "redy" in warnings()
    (etc / "templates" / "recipes" / "mine.yaml").write_text(RECIPE.replace("ready", "redy"))
    with pytest.raises(UsageError, match="no recipe 'mine'"):
        recipes.load("mine")
    assert "mine.yaml:3: unknown key 'redy'" in warnings()


FILES = {
    "partitions.yaml": ("default_cluster: neuron\n", "default_clusters: neuron\n"),
    "config.yaml": ("partition: gpu\n", "partitoin: gpu\n"),
    "causes.yaml": (CAUSE, CAUSE.replace("means", "meens")),
    "templates/launchers/mine.j2": (SRUN, SRUN.replace("endblock", "endblok")),
    "templates/recipes/mine.yaml": (RECIPE, RECIPE.replace("ready", "redy")),
}


@pytest.mark.parametrize("name", FILES)
def test_each_of_the_five_files_is_checked(etc: Path, name: str) -> None:
    file = etc / name
    good, bad = FILES[name]
    file.write_text(good)
    assert doctor.check_file(str(file))
    file.write_text(bad)
    launchers.forget()
    with pytest.raises(NeuronctlError, match=file.name):
        doctor.check_file(str(file))
    if name not in ("partitions.yaml", "config.yaml"):  # which have checks of their own
        (probe,) = [check for check in doctor.examine() if check.name == "site"]
        assert probe.state == doctor.BAD and probe.exit_code and name in probe.words


def test_a_file_that_is_not_there(etc: Path) -> None:
    for name in ("causes.yaml", "launchers/srun.j2", "recipes/jupyter.yaml", "config.yaml"):
        with pytest.raises(NeuronctlError, match=r"[Nn]o such file"):
            doctor.check_file(str(etc / "gone" / name))
