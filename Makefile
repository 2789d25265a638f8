# Everything a checkout needs, from a machine with Python 3.9 or newer, git and make.
#
#   PYTHON   the Python to build .venv from
#   WORKERS  how many tests with Slurm run side by side; most of them wait for it
#   ROUNDS   how often make bench runs each command
#   OPTIONS  more for make test-agreement, such as --debian trixie or --agreement-seed 7
#   TORCH    what pip installs for the demo; where the default would fetch a GPU build you do
#            not want, set PIP_INDEX_URL or name a wheel

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Else each of thousands of processes compiles neuronctl anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
TORCH ?= -r tools/outside/torch.txt -c tools/outside/parts.txt
WORKERS ?= 8

VENV := .venv
BIN := $(VENV)/bin
# Groups of tests share a sandbox (tests/slurm/conftest.py), and begin in the order given there.
# If a worker dies, pytest-xdist 3.8 waits forever for the groups that it had.
PYTEST = $(BIN)/python -m pytest --max-worker-restart 0
# A busy machine may delay a daemon beyond what a test expects. The summary names what ran twice.
AGAIN = --reruns 1 -r aR
TEST_SLURM = NEURONCTL_REQUIRE_SLURM=1 $(PYTEST) $(AGAIN) -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: install packages $(VENV)/torch.stamp ## watch a training run on two nodes of a real Slurm
	@tools/demo

test: install test-packages ## all checks, with a real Slurm and real training
	@$(MAKE) --no-print-directory --jobs --keep-going --output-sync=target lint test-plain test-slurm

test-plain: install ## the tests that need no Slurm
	$(PYTEST) $(AGAIN) -n 4 --dist loadgroup --no-loadscope-reorder --durations 20 $(addprefix tests/,packaging check_corpus cli docs unit fuzz golden)

test-slurm: parts ## the tests that run jobs on a real Slurm
	$(TEST_SLURM) --durations 40 tests/slurm

test-matrix: install test-packages ## Slurm tests in every combination, with Horovod, DeepSpeed, and an image, here and on two newer ones
	$(TEST_SLURM) tests/slurm --whole
	$(TEST_SLURM) tests/slurm --whole --debian trixie
	$(TEST_SLURM) tests/slurm --whole --debian sid

test-agreement: install test-packages ## what is said of 960 random requests in 80 states, and what Slurm does
	NEURONCTL_REQUIRE_SLURM=1 $(BIN)/python -m pytest -n 0 tests/slurm/test_comparison.py \
		tests/slurm/test_script_header.py --agreement-seed $$RANDOM --agreement-states 80 \
		$(OPTIONS)

test-fast: install ## unit tests, generated scripts and documentation, in a minute or two
	$(PYTEST) -n 4 tests/unit tests/fuzz tests/golden tests/docs tests/check_corpus

check-corpus: install ## what check finds of the defects that a reader named in the corpus, and what it says wrongly
	@$(BIN)/python tests/check_corpus/measure.py

fuzz: install ## over 100,000 broken files, answers of Slurm, logs and command lines, which takes minutes
	$(BIN)/python -m pytest -p no:xdist tests/fuzz --hypothesis-profile=fuzz

ROUNDS ?= 30

bench: install packages ## neuronctl beside its peers on a full cluster, into docs/reference/benchmarks.md
	$(BIN)/python -m benchmarks --rounds $(ROUNDS)

lint: install ## ruff, mypy --strict, and shellcheck over our own scripts; the tests check the generated ones
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/shellcheck .ci/run tools/apt-install tools/build-* tools/demo tools/zipapp/start.sh

docs: install ## write the generated pages of docs/reference anew
	$(BIN)/python -m pytest tests/docs --update-docs

dist: install ## the wheel and the sdist, into dist
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

zipapp: dist ## dist/neuronctl.pyz, neuronctl in one file, for login nodes without pip
	$(BIN)/python tools/zipapp/build.py dist/neuronctl-*.whl dist/neuronctl.pyz

site: $(VENV)/site.stamp ## the documentation as web pages, into build/html; needs Python 3.10; URL=https://… for the sitemap
	$(VENV)/site/bin/python tools/site/build.py build/html $(URL)

install: $(VENV)/install.stamp ## neuronctl and its tools in .venv, as in tools/outside/requirements.txt

lock: install ## the newest versions of all that pip installs here, into tools/outside
	$(BIN)/uv pip compile --quiet --universal --python-version 3.9 --generate-hashes \
		--upgrade --no-header --all-extras --output-file tools/outside/requirements.txt pyproject.toml
	cd tools/outside && $(CURDIR)/$(BIN)/uv pip compile --quiet --universal \
		--python-version 3.10 --upgrade --no-header --no-annotate --output-file parts.txt \
		training.txt horovod.txt deepspeed.txt
	echo zensical | $(BIN)/uv pip compile --quiet --universal --python-version 3.10 --no-header \
		--upgrade --generate-hashes --output-file tools/outside/site.txt -

audit: $(VENV)/tools.stamp ## known vulnerabilities of these versions; a mirror of the package index may not know them
	$(VENV)/tools/bin/pip-audit --strict --disable-pip --require-hashes -r tools/outside/requirements.txt

packages: install ## the Debian packages of the sandbox, where they are missing
	@tools/apt-install $$($(BIN)/neuronctl sandbox packages)

parts: test-packages ## the environment in which the tests train
	@PYTHONPATH="$(CURDIR)/tests" NEURONCTL_REQUIRE_SLURM=1 $(BIN)/python tests/slurm/bench.py

test-packages: install
	@tools/apt-install zsh fish \
		$$($(BIN)/neuronctl sandbox packages --all) $$(<tools/outside/machine.txt)

clean: ## remove .venv and everything built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 9) and "neuronctl needs Python 3.9")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tools/apt-install python3-venv
	@echo 'Installing Python packages in $(VENV); this takes a minute or two.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet 'pip>=22.3'
	@touch $@

$(VENV)/install.stamp: $(VENV)/python.stamp pyproject.toml tools/outside/requirements.txt
	$(BIN)/pip install --quiet --no-compile --require-hashes -r tools/outside/requirements.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/tools.stamp: $(VENV)/python.stamp
	$(PYTHON) -m venv $(VENV)/tools
	$(VENV)/tools/bin/pip install --quiet pip-audit
	@touch $@

$(VENV)/site.stamp: $(VENV)/python.stamp tools/outside/site.txt
	$(PYTHON) -m venv $(VENV)/site
	$(VENV)/site/bin/pip install --quiet -r tools/outside/site.txt
	@touch $@

$(VENV)/torch.stamp: $(VENV)/python.stamp tools/outside/torch.txt tools/outside/parts.txt
	@echo 'Installing PyTorch in $(VENV): some 200 MB, or 3 GB with a GPU build.'
	$(BIN)/pip install --quiet $(TORCH)
	@touch $@

.PHONY: help demo test test-plain test-slurm test-matrix test-agreement test-fast fuzz bench lint docs dist zipapp site install lock audit packages parts test-packages clean
