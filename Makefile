# Every target sets up what it needs in .venv by itself, once, and again when pyproject.toml or
# constraints.txt change. `demo` installs what running needs and no more.

VENV := .venv
BIN := $(VENV)/bin
# The first interpreter that runs and is new enough; a name alone may be a shim that does not run.
PYTHON ?= $(shell for candidate in python3.11 python3.12 python3.13 python3 python; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$candidate && break; done)
# Python compiles what it imports when it imports it; compiling all of torch takes
# as long as the rest of an installation.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
# Not --quiet, which hides the warnings that make the build fail.
MKDOCS := $(BIN)/mkdocs build --strict
DEMO_DIR ?= scr-demo
# As many as most machines have cores; each computes on one thread.
WORKERS ?= 2
# Of `make test`: one more, since one of them waits for Ray most of its time.
TESTERS ?= 3
# Of the campaigns of `make stress`, in all; and what decides their cases.
MINUTES ?= 60
SEED ?= 0
# Without bytecode files, every process that a test starts compiles all of torch again.
unexport PYTHONDONTWRITEBYTECODE
# The theme advertises its successor on every build.
export NO_MKDOCS_2_WARNING := 1

.PHONY: help demo test stress check a11y bench stand-ins docs clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.run ## the whole way on embedded real data: a table and a report page
	$(BIN)/scr demo --out $(DEMO_DIR)

test: $(VENV)/.test ## every test, and the examples in docstrings
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadgroup

stress: $(VENV)/.test ## long campaigns: kills, full disks, damage, limits, random inputs
	$(BIN)/python -m campaigns --jobs $(WORKERS) --minutes $(MINUTES) --seed $(SEED)
	$(BIN)/python -m campaigns.table
	$(BIN)/python -m pytest -n $(WORKERS) -m "stress or hypothesis" --hypothesis-profile stress

check: $(VENV)/.check ## style, types, import layers, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MKDOCS)

a11y: $(VENV)/.test ## report pages in Chromium, by axe-core; needs npm
	$(BIN)/python benchmarks/accessibility.py

bench: $(VENV)/.test ## speed and accuracy beside peers, written to benchmarks/results
	$(BIN)/python benchmarks/propagation.py
	$(BIN)/python benchmarks/block_widths.py
	$(BIN)/python benchmarks/scale.py curve
	$(BIN)/python benchmarks/scale.py budget
	$(BIN)/python benchmarks/cluster.py propagate
	$(BIN)/python benchmarks/cluster.py train
	$(BIN)/python benchmarks/papers.py all
	$(BIN)/python benchmarks/products.py $(if $(OFFICIAL),--official $(OFFICIAL))
	test -z "$(OFFICIAL)" || $(BIN)/python benchmarks/training.py --official $(OFFICIAL)
	$(BIN)/python benchmarks/strangers.py
	$(BIN)/python benchmarks/accuracy.py search
	$(BIN)/python benchmarks/accuracy.py table
	$(BIN)/python benchmarks/accuracy.py defaults
	$(BIN)/python benchmarks/combinations.py search
	$(BIN)/python benchmarks/combinations.py table
	$(BIN)/python benchmarks/networks.py search
	$(BIN)/python benchmarks/networks.py table
	$(BIN)/python benchmarks/regularizers.py
	$(BIN)/python benchmarks/grand.py
	$(BIN)/python benchmarks/figures.py efficiency --graph products-like
	$(BIN)/python benchmarks/figures.py efficiency --graph wordnet
	$(BIN)/python benchmarks/figures.py sensitivity --graph dblp_citation
	$(BIN)/python benchmarks/readme.py

stand-ins: $(VENV)/.test ## every recipe, scaled down, on generated graphs: an hour or two
	$(BIN)/python benchmarks/stand_ins.py --jobs $(WORKERS)
	$(BIN)/python benchmarks/readme.py

docs: $(VENV)/.check ## the documentation as a site
	$(MKDOCS)
	@echo "The documentation is $(CURDIR)/site/index.html"

clean: ## remove what the other targets made
	rm -rf $(VENV) $(DEMO_DIR) site dist build .mypy_cache .ruff_cache .pytest_cache \
		.hypothesis .import_linter_cache campaigns/.work
	find src tests benchmarks campaigns -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "scr needs Python 3.11 or newer; install it, or name one:" \
		"make demo PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || $(PYTHON) -m virtualenv --quiet $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment;" \
		"on Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV): scr and what it needs to run"
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@echo "Setting up $(VENV): what the tests need"
	$(PIP_INSTALL) --editable '.[test]'
	@touch $@

$(VENV)/.check: $(VENV)/.test
	@echo "Setting up $(VENV): what the checks and the documentation need"
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $@
