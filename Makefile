# All files are written to .venv and var/ of this checkout. `make` alone lists the commands.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test long tests quick mutants faults check bench ui lock docs docs-tables screenshots env clean install spark study dist lowest pythons ranges sizes
unexport PYTHONDONTWRITEBYTECODE
PY := .venv/bin/python
# Files of tests are spread over the cores; the ones that wait for servers begin first.
WORKERS := 2
# Test data are temporary: with eatmydata, databases do not wait for the disk.
PYTEST := $(shell command -v eatmydata) $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 10 -rs

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install:
	@scripts/install.sh

run: install ## Set up, run the weekly refresh of the demo through real Airflow, show the result
	@$(PY) -m slc_ops.demo.run run

ui: install ## Airflow and MLflow in the browser, on loopback, with the demo's results
	@$(PY) -m slc_ops.demo.run ui

# A test is plain, `slow` (whole refreshes, large inputs, a server or process of its own: over half a second of CPU), `services` (whole installations, many kills) or
# `chaos` (minutes of kills, damage and full disks, for `make faults`).
test: install ## Set up and run the tests
	@$(PYTEST) -m "not services and not chaos"

long: install ## Run the long tests: complete installations on real servers, controls on real data
	@$(PYTEST) -m services

quick: install ## Run the tests that need no services
	@$(PYTEST) -m "not slow and not services and not chaos"

# The table of what was done and what came of it is written by the run itself.
faults: install ## Kill, damage, fill the disk, jump the clock, fuzz the arguments; write the table of docs/performance.md
	@$(PY) -m pytest -p tests.faults.table -m faults

# Both of the above in one go, so that no core waits for the end of either.
tests: install ## Run the tests and the long tests together
	@$(PYTEST) -m "not chaos"

mutants: install ## Break one line at a time of the code that affects results; list those that the quick tests miss
	@$(PY) scripts/mutants.py

spark: install ## Add PySpark (450 MB) and run the tests of the Spark engine on a cluster of two workers
	@scripts/install.sh spark
	@$(PY) -m pytest --durations 10 tests/engines/spark

study: install ## Add PyTorch (750 MB) and run the tests of the paper's backbones
	@scripts/install_study.sh
	@$(PY) -m pytest --durations 10 tests/study

check: install ## Lint (ruff with the AIR rules), types (mypy --strict), doctests
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/lint-imports --no-cache
	@! grep -rnwF -f scripts/old_names.txt --include=*.py --include=*.md --include=*.html --include=*.j2 --include=*.ipynb --include=*.yml slc_ops dags plugins tests benchmarks scripts docs deploy notebooks *.md || { echo "these words were replaced: see scripts/old_names.txt"; exit 1; }
	@.venv/bin/mypy & types=$$!; $(PY) -m pytest --durations 10 --doctest-modules slc_ops; doctests=$$?; wait $$types && exit $$doctests

ROWS := 1e8
bench: install ## Measure against the scan and other libraries, write docs/performance.md (quick: ROWS=1e6)
	@scripts/install_peers.sh
	@scripts/install.sh spark
	@$(PY) benchmarks/bench.py --rows $(ROWS)

lock: ## Resolve requirements.txt again from pyproject.toml, with hashes, for Python 3.11 to 3.13
	@scripts/lock.sh

docs-tables: install ## Write the generated parts of the docs: settings tables, the schema, figures of the concepts, the rules in force
	@$(PY) scripts/docs_pages.py
	@$(PY) scripts/settings_tables.py docs/settings.md
	@$(PY) scripts/settings_tables.py docs/sources.md
	@.venv/bin/slc-ops schema --out dags/deployments.schema.json

docs: install ## Build the documentation site into var/site, strictly: a dead link fails
	@scripts/docs.sh

screenshots: install ## Make a demo, start Airflow, take every screenshot of docs/images with headless Chromium
	@PYTHONPATH=. $(PY) scripts/screenshots.py

dist: export SOURCE_DATE_EPOCH = $(or $(shell git log -1 --format=%ct 2>/dev/null),1767225600)
dist: install ## Build wheel, sdist and SBOM into dist/: the same bytes from the same commit; check their metadata
	@rm -rf dist
	@$(PY) -m hatchling build -d dist
	@$(PY) -m twine check --strict dist/*
	@PYTHONPATH=. $(PY) scripts/sbom.py dist/slc_ops.cdx.json

lowest: ## Run the quick tests on the oldest direct versions that pyproject.toml allows, in .venv-lowest
	@WORKERS=$(WORKERS) scripts/lowest.sh

pythons: ## Run the quick tests on other installed Pythons (3.12, 3.13), each in a separate environment
	@WORKERS=$(WORKERS) scripts/pythons.sh

# What calls the libraries whose versions differ; the whole quick part on each is `make lowest` and `make pythons`.
RANGES := tests/airflow tests/base tests/cli tests/intake tests/quality tests/registry tests/serving tests/settings
ranges: ## Run the tests that call other libraries on the oldest direct versions and on the other Pythons
	@WORKERS=$(WORKERS) scripts/lowest.sh $(RANGES)
	@WORKERS=$(WORKERS) scripts/pythons.sh tests/base tests/cli tests/settings tests/serving

sizes: install ## Measure installed size and import time of each extra (or EXTRAS="airflow all"), write docs/performance.md
	@PYTHONPATH=. $(PY) benchmarks/installed_size.py $(EXTRAS)

env: ## Write .env with fresh secrets for docker-compose.yaml; an existing one is left alone
	@scripts/make_env.sh

clean: ## Remove var/ and caches (not .venv)
	@rm -rf var .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
