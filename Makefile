# Targets set up what they need: a virtual environment in .venv, made anew when the lock changes.
PYTHON ?= python3
BIN := .venv/bin
LOCK := --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test check bench format lock clean

help: ## Say what can be done
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: ## Ask the sample documents a question, offline
	./run_demo.sh

test: .venv/dev ## Set up and pass the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -q

check: .venv/dev ## Format, lint, types and import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/pyright

bench: .venv/dev ## Speed beside what one would use instead
	$(BIN)/python -m benchmarks

format: .venv/dev ## Format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## Resolve the dependencies anew
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile $(LOCK) pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile $(LOCK) pyproject.toml --group dev -o requirements-dev.lock

clean: ## Remove what the targets made
	rm -rf .venv dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

.venv/dev: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; say which: make test PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@
