# Everything happens in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
READY_DOCS := $(VENV)/.ready-docs
INSTALL := install --quiet --disable-pip-version-check
PIP := $(BIN)/pip $(INSTALL) -c constraints.txt
BOM_TOOL := $(VENV)/sbom
SEED ?= 0

.PHONY: demo test quick check docs dist sbom hashed accuracy chaos chaos-quick fuzz fuzz-quick load format bench clean

demo: $(READY)  ## train on a generated noisy graph and show what was removed
	$(BIN)/gdpnet demo --out runs/demo

test: $(READY_DEV)  ## run all tests
	$(BIN)/pytest -n 2

quick: $(READY_DEV)  ## run the tests that train nothing, in under a minute
	$(BIN)/pytest -n 2 -m "not slow"

check: $(READY_DEV)  ## format, lint, types, imports, all tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2

docs: $(READY_DOCS)  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: $(READY_DEV)  ## build the wheel and the source distribution into dist/
	rm -rf build dist
	$(BIN)/python -m build --no-isolation --outdir dist .

hashed: $(BIN)/pip  ## fill .venv with the wheels of constraints-hashes.txt and no others, torch excepted
	$(PIP) torch
	$(BIN)/pip $(INSTALL) --no-deps --only-binary :all: --require-hashes -r constraints-hashes.txt
	$(BIN)/pip $(INSTALL) --no-deps --no-build-isolation -e .
	$(BIN)/pip check
	touch $(READY) $(READY_DEV) $(READY_DOCS)

sbom: $(READY)  ## write dist/gdpnet.cdx.json, a bill of materials (CycloneDX) of all packages in .venv and in the package
	test -x $(BOM_TOOL)/bin/cyclonedx-py || $(PYTHON) -m venv $(BOM_TOOL)
	$(BOM_TOOL)/bin/pip $(INSTALL) cyclonedx-bom==7.5.0
	mkdir -p dist
	$(BOM_TOOL)/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
	  --output-format JSON --output-file dist/gdpnet.cdx.json $(BIN)/python
	$(BIN)/python tools/sbom.py dist/gdpnet.cdx.json

chaos: $(READY_DEV)  ## an hour of kills, full disks and signals; one JSON summary, exit 1 on a violation
	@$(BIN)/python -m campaigns.chaos --seconds 3600 --seed $(SEED)

# a failure in CI must be repeatable: rounds at random moments are left to `make chaos`
REPEATABLE := kill,tear,full,full-once,interrupt,terminate,kill-twice,read-only,two,occupied,link,device

chaos-quick: $(READY_DEV)  ## the same in two minutes, without random moments
	@$(BIN)/python -m campaigns.chaos --seconds 120 --rounds 150 --only $(REPEATABLE) --seed $(SEED)

fuzz: $(READY_DEV)  ## an hour of damaged and hostile inputs; one JSON summary, exit 1 on a violation
	@$(BIN)/python -m campaigns.fuzz --seconds 3600 --seed $(SEED)

fuzz-quick: $(READY_DEV)  ## the kept findings, then new inputs, in two minutes
	@$(BIN)/python -m campaigns.fuzz --seconds 120 --rounds 500 --seed $(SEED)

load: $(READY_DEV)  ## train on and clean graphs with one very large dimension; peak memory and seconds
	$(BIN)/python benchmarks/load.py

accuracy: $(READY_DEV)  ## fit Cora and CiteSeer, and fail below the recorded accuracy; wants GDPNET_DATA
	$(BIN)/python benchmarks/accuracy.py

format: $(READY_DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY_DEV)  ## speed and memory, as ratios in one run; wants GDPNET_DATA
	$(PIP) -e ".[bench]"
	$(BIN)/python benchmarks/rollout.py
	$(BIN)/python benchmarks/sb3.py
	$(BIN)/python benchmarks/epoch.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/blocks.py cost
	$(BIN)/python benchmarks/blocks.py memory
	$(BIN)/python benchmarks/blocks.py hub
	$(BIN)/python benchmarks/parts.py
	$(BIN)/python benchmarks/featureless.py
	$(BIN)/python benchmarks/agreement.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/explorer.py

$(BIN)/pip:
	$(PYTHON) -c 'import sys; sys.exit("gdpnet needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(READY): $(BIN)/pip pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

$(READY_DEV): $(READY)
	$(PIP) -e ".[dev]"
	touch $@

$(READY_DOCS): $(READY_DEV)
	$(PIP) -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) runs build dist site .pytest_cache .mypy_cache .ruff_cache
