# pellucid: what a person does here, by one word each. `make` lists them.

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Seconds of each test, for tools/report_seconds.py.
RESULTS := .test-results/tests.xml
# The tests that name a module of programs whose answers are in tests/references.
BOOKS := $(basename $(notdir $(wildcard tests/references/*.txt)))
RECORDED = $(shell grep -rlw $(foreach book,$(BOOKS),-e $(lastword $(subst ., ,$(book)))) tests --include='test_*.py')
# Two processes: every test process has eight virtual devices and compiles, so more don't help.
WORKERS ?= 2
NOTEBOOK ?= $(wildcard notebooks/01_first_look.ipynb)
# In a container one is often root, which Jupyter refuses unless told that it is meant.
ALLOW_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# Tests start hundreds of processes: without stored bytecode each compiles all modules anew, a second of processor time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help environment lab test test-all references test-libraries test-browser bench bench-lab gallery lint format types layers check snapshots api docs wheel clean

help: ## list what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1	\2/p' $(MAKEFILE_LIST) | expand -t 16

environment: ## make .venv or bring it up to date
	@tools/environment.sh $(VENV) dev

lab: ## open JupyterLab on the first notebook
	@tools/environment.sh $(VENV) lab
	$(BIN)/jupyter lab $(ALLOW_ROOT) $(NOTEBOOK)

test: environment ## run the tests that need neither accelerator nor browser, of rotating ones one part in eight
	$(PYTEST) -n $(WORKERS) --dist worksteal --junit-xml $(RESULTS)

test-all: environment ## run the same with all parts of the rotating tests: an hour or more
	PELLUCID_TEST_PART=all $(PYTEST) -n $(WORKERS) --dist worksteal

references: environment ## record what jax answers to tests where that is missing, and drop what no test asks for
	PELLUCID_TEST_PART=all $(PYTEST) --references=renew $(RECORDED)

test-libraries: ## run the programs of examples/libraries with all their libraries, in an environment of their own
	@PELLUCID_SKIP_LABEXTENSION=1 tools/environment.sh build/libraries test,oracle,libraries,more-libraries
	build/libraries/bin/python -m pytest tests/examples/test_libraries.py

test-browser: environment ## drive JupyterLab in Chromium
	$(PYTEST) -m browser -n $(WORKERS) --dist loadfile tests/browser

bench: environment ## run every benchmark once; each prints one record
	@for question in benchmarks/[0-9]*.py; do echo "# $$question"; $(BIN)/python "$$question" || exit 1; done

bench-lab: environment ## measure JupyterLab and the viewer against their bounds
	$(BIN)/python benchmarks/lab_speed.py

gallery: environment ## make the pictures of docs/gallery, also those of programs
	$(BIN)/python tools/gallery.py
	$(BIN)/python tools/example_pictures.py

lint: environment ## format and lint
	$(BIN)/ruff format --check
	$(BIN)/ruff check

format: environment ## rewrite sources as `make lint` wants them
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

types: environment ## check types
	$(BIN)/pyright --pythonpath $(BIN)/python

layers: environment ## check who imports whom
	PYTHONPATH=core:kernel:viz:profiler $(BIN)/lint-imports

check: lint types layers ## everything that needs no test run
	$(BIN)/python tools/generate_types.py --check
	$(BIN)/python tools/public_api.py --check
	$(BIN)/python tools/missing_api.py --check
	$(BIN)/python -m pellucid.introspect rules | diff tests/snapshots/rule_matrix.txt -

snapshots: environment ## rewrite generated types, the lists of public and of missing names, the table of rules
	$(BIN)/python tools/generate_types.py
	$(BIN)/python tools/public_api.py
	$(BIN)/python tools/missing_api.py
	$(BIN)/python -m pellucid.introspect rules > tests/snapshots/rule_matrix.txt

api: environment ## count the reference's names that exist, and those with compatible parameters, by module
	$(BIN)/python tools/missing_api.py --counts

docs: environment ## build the documentation site into build/docs
	$(BIN)/python -m sphinx -c docs -W --keep-going -q -b html . build/docs
	@echo build/docs/docs/index.html

wheel: environment ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist

clean: ## remove everything that can be made again
	rm -rf $(VENV) .venv-smoke .test-results build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf lab-extension/node_modules lab-extension/lib lab-extension/dist tests/browser/output
	find core kernel viz profiler tools tests -name __pycache__ -type d -prune -exec rm -rf {} +
