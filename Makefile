# Everything there is to do here; `make` alone lists it.

BIN := .venv/bin
INSTALLED := .venv/installed
WORKERS ?= 2
# real data that nobody may pass on: tests that need some are skipped where there is none
DATA ?= $(wildcard ../shared/data)

.DEFAULT_GOAL := help
.PHONY: help install demo test check format-check lint types imports format mutants bench docs clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## set up .venv with everything, once

$(INSTALLED): pyproject.toml scripts/install
	scripts/install

demo: install  ## four methods on embedded real data: the table, and the picture in runs/demo
	rm -rf runs/demo
	$(BIN)/pluribus compare local fedavg fedper fedrep --data mnist-5k --partition dirichlet:0.1 \
		--clients 20 --newcomers 4 --rounds 12 --out runs/demo

test: export PLURIBUS_DATA ?= $(abspath $(DATA))
test: format-check lint types  ## all that CI runs: format, lint, types, import rule, tests
	$(BIN)/pytest -n $(WORKERS)

check: format-check lint types imports  ## format, lint, types and the import rule, changing nothing

format-check: install
	$(BIN)/ruff format --check --quiet --diff

lint: install
	$(BIN)/ruff check --quiet

types: install
	$(BIN)/mypy

imports: install
	$(BIN)/pytest --quiet tests/test_imports.py

format: install  ## put the code into the common form
	$(BIN)/ruff check --quiet --fix-only
	$(BIN)/ruff format --quiet

mutants: install  ## break each lettered line of each method; METHOD=fedrep for one
	$(BIN)/python scripts/mutants.py $(METHOD)

bench: install  ## speed beside the limit and the peers, into docs/benchmarks.md; hours on a free machine
	benchmarks/peers/install
	$(BIN)/python benchmarks/measure.py

docs: install  ## make the generated parts of README.md anew
	$(BIN)/python scripts/docs.py

clean:  ## remove what the tools left behind; .venv and runs stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests scripts -name __pycache__ -prune -exec rm -rf {} +
