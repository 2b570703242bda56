# Everything happens in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev

.PHONY: demo test check format bench clean

demo: $(READY)  ## train on a generated noisy graph and show what was removed
	$(BIN)/gdpnet demo --out runs/demo

test: $(READY_DEV)  ## run all tests
	$(BIN)/pytest -n 2

check: $(READY_DEV)  ## format, lint, types, imports, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2

format: $(READY_DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY_DEV)  ## speed and memory, as ratios in one run; wants GDPNET_DATA
	$(BIN)/pip install --quiet -c constraints.txt -e ".[bench]"
	$(BIN)/python benchmarks/rollout.py
	$(BIN)/python benchmarks/sb3.py
	$(BIN)/python benchmarks/epoch.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/featureless.py

$(VENV)/bin/pip:
	$(PYTHON) -c 'import sys; sys.exit("gdpnet needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(READY): $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(READY_DEV): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache
