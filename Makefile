# Everything a person or a CI needs to do, one word each. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Where an image sets it, every kgtool of a test would compile its modules again: half of its start.
unexport PYTHONDONTWRITEBYTECODE

help:  ## list what can be made
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo:  ## the whole product on a real Kafka, then everything stopped again
	@$(SHELL) tools/java.sh
	@$(MAKE) --no-print-directory venv
	@$(BIN)/python tools/demo.py

test: what-tests-need  ## the tests, with a real Kafka and a real Spark, and the linters
	@$(BIN)/python tools/run_tests.py $(ALL)

what-tests-need: venv
	@$(SHELL) tools/java.sh
	@$(SHELL) tools/packages.sh $(ALL)
	@$(BIN)/python -c 'import gssapi' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[gssapi]' || true

test-all: venv  ## matrices, tests of size and Kafka's own tests of its command too: what CI runs
	@$(MAKE) --no-print-directory test ALL=--all

check: venv  ## ruff and what the changed files reach, in a minute (SINCE=main: since that commit)
	@$(BIN)/python tools/check.py $(SINCE)

mutants: what-tests-need  ## does a test notice when a line is wrong? (MUTANTS="--files retention --count 50")
	@$(BIN)/python tools/mutants.py $(MUTANTS)

lanes: venv  ## oldest and newest Python, oldest dependencies, every Kafka (LANES=kafka): some tests each
	@$(SHELL) tools/java.sh
	@$(BIN)/python tools/lanes.py $(LANES)

soak: venv  ## 2,000 changes while something happens (SOAK="--runs 200 --seconds 600"), 100 M records, random lives
	@$(SHELL) tools/java.sh
	@$(BIN)/python tools/soak.py $(SOAK)
	@$(BIN)/python tools/soak_analyze.py
	@$(BIN)/python tools/soak_top.py
	@$(BIN)/python tools/truth.py
	@KGTOOL_TEST_ROUNDS=10 $(BIN)/python -m pytest -q tests/analysis/test_unknown.py tests/queries/test_explained_alike.py tests/spark/test_state.py
	@$(BIN)/python -m pytest -q -m soak

bench: venv  ## how fast it is: ratios against Kafka's tool and against the limits
	@$(SHELL) tools/java.sh
	@$(BIN)/python -m tests.bench $(BENCH)

lint: venv  ## ruff, mypy strict and the layer test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_layers.py

dist: venv  ## wheel, sdist, kgtool.pex, hashed requirements, SBOM and SHA256SUMS, in dist/
	@$(BIN)/python tools/dist.py

image: dist  ## the container images kgtool:slim and kgtool:analyze (needs Docker)
	docker build --target slim --tag kgtool:slim .
	docker build --target analyze --tag kgtool:analyze .

docs: venv  ## completions, man pages and the HTML of docs/, from the command line itself
	@$(BIN)/python tools/docs.py
	@$(BIN)/python -m sphinx -q -W -b html docs build/docs && echo "build/docs/index.html"

format: venv  ## let ruff put the sources in order
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

venv: $(VENV)/.installed  ## the environment in .venv, with everything the tests need

$(VENV)/.installed: pyproject.toml setup.py kgtool/__init__.py
	@echo "Setting up $(VENV) (Python packages, once) …"
	@$(PYTHON) -c 'import sys; sys.exit("kgtool needs Python 3.10 or newer; set PYTHON=python3.11 or the like." if sys.version_info < (3, 10) else 0)'
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: on Debian, apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' 'pandas<3'  # pyspark[connect]'s: PySpark 4.3 can't use 3
	@touch $@

readme: venv  ## run the commands of README.rst and docs/ again and put in what they print
	@$(BIN)/python tools/readme.py

clean:  ## remove what was made here (not the caches in your home folder)
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: readme help demo test test-all what-tests-need check mutants lanes soak bench lint dist image docs format venv clean
