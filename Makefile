PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/stakes/__init__.py)
RESOLUTION-lowest := --resolution lowest-direct
RESOLUTION-newest := --upgrade --prerelease if-necessary-or-explicit

.DEFAULT_GOAL := help
.PHONY: help demo test coverage slow test-lowest test-newest test-double test-shapes lint format bench against reproduce docs release clean

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.installed ## run the eight-schools problem from end to end
	$(BIN)/python -m examples.eight_schools

test: .venv/.installed ## run the tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup

coverage: .venv/.installed ## run the tests and say which lines they reach
	$(BIN)/python -m pytest -n 2 --dist loadgroup --cov

slow: .venv/.installed ## run the slow tests: published experiments and long runs
	$(BIN)/python -m pytest -m slow -o faulthandler_timeout=0

test-lowest: .venv-lowest/.installed ## run the tests with the lowest versions that are supported
	.venv-lowest/bin/python -m pytest -n 2 --dist loadgroup -W ignore::DeprecationWarning # of each other

test-newest: .venv-newest/.installed ## run the tests with the newest JAX and newest other packages
	.venv-newest/bin/python -m pytest -n 2 --dist loadgroup

test-double: .venv/.installed ## run the tests in double precision
	JAX_ENABLE_X64=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

test-shapes: .venv/.installed ## run the tests, and check the shapes of arrays at each call
	STAKES_CHECK_SHAPES=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

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

release: test lint ## test, build into dist/ and tag the version; CONTRIBUTING says what comes before and after
	git diff --quiet HEAD || { echo "Commit or stash what has changed."; exit 2; }
	grep -q '^## $(VERSION) ' CHANGELOG.md || { echo "CHANGELOG.md has no heading '## $(VERSION) (date)'."; exit 2; }
	rm -rf dist
	$(BIN)/python -m build
	git tag -a v$(VERSION) -m "stakes $(VERSION)"

clean: ## remove what the tools left, but for .venv
	rm -rf build dist site .gallery_cache .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests examples reproduce benchmarks -name __pycache__ -prune -exec rm -rf {} +

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stakes needs Python 3.11 or later, and $(PYTHON) is %d.%d: try make PYTHON=python3.12" % sys.version_info[:2])'
	@echo "Installing into .venv: a minute or two."
	$(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt -e '.[cli,dev]'
	@touch $@

# uv resolves versions; pip alone cannot choose the lowest ones.
.venv-lowest/.installed .venv-newest/.installed: .venv-%/.installed: pyproject.toml
	@echo "Installing into .venv-$*: a minute or two."
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip --disable-pip-version-check -qq install uv
	.venv-$*/bin/uv pip install -q --python .venv-$*/bin/python $(RESOLUTION-$*) -e '.[cli,dev]'
	@touch $@

.venv/.installed-against: .venv/.installed
	$(PIP) install -c constraints.txt -e '.[against]'
	@touch $@

.venv/.installed-docs: .venv/.installed
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@
