PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.DEFAULT_GOAL := help
.PHONY: help demo test coverage slow lint format bench against reproduce docs clean

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.installed ## run the eight-schools problem from end to end
	$(BIN)/python -m examples.eight_schools

test: .venv/.installed ## run the tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup

coverage: .venv/.installed ## run the tests and say which lines they reach
	$(BIN)/python -m pytest -n 2 --dist loadgroup --cov

slow: .venv/.installed ## run the slow tests: published experiments and long runs
	$(BIN)/python -m pytest -m slow -o faulthandler_timeout=0

lint: .venv/.installed ## check style, formatting, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: .venv/.installed ## format the code and fix what can be fixed
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: .venv/.installed ## run the benchmarks
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.steps

against: .venv/.installed-against ## compare with other tools, for the page in the docs
	$(BIN)/python -m benchmarks.against

reproduce: .venv/.installed ## run the paper's experiments again, for the page in the docs
	@test -n "$$STAKES_DATA" || { echo "The page is about Last.fm: set STAKES_DATA to its folder."; exit 2; }
	$(BIN)/python -m reproduce all --as-published --out docs/reproduced
	$(BIN)/python docs/renew.py

docs: .venv/.installed-docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove what the tools left, but for .venv
	rm -rf build dist site .gallery_cache .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests examples reproduce benchmarks -name __pycache__ -prune -exec rm -rf {} +

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stakes needs Python 3.11 or later, and $(PYTHON) is %d.%d: try make PYTHON=python3.12" % sys.version_info[:2])'
	@echo "Installing into .venv: a minute or two."
	$(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt -e '.[cli,dev]'
	@touch $@

.venv/.installed-against: .venv/.installed
	$(PIP) install -c constraints.txt -e '.[against]'
	@touch $@

.venv/.installed-docs: .venv/.installed
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@
