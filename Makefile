# `make demo` and `make test` need Python 3.11 or later and make; they set up their own virtual environment.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CODE := events actors projections app examples benchmarks

.PHONY: setup demo test test-all simulate faults mutants chaos kills lint types contracts docs check benchmark clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Redraft needs Python 3.11 or later; name one: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

# Else each of the many processes of the tests would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The tests wait for servers as well, so two processes more than cores. Their folders lie in memory where it has room,
# that they need not wait for a disk. The longest files come first, see `LONG` in tests/conftest.py.
PROCESSES ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
FOLDERS := $(shell df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 2000 { print "TMPDIR=/dev/shm" }')
# pytest keeps what it compiles apart from what the processes of the tests could load: they would compile it each time.
PYTEST := $(BIN)/python -m compileall -q $(CODE) && $(FOLDERS) $(BIN)/pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

test: $(READY)
	$(PYTEST) -m 'not chaos and not check'

test-all: $(READY)
	REDRAFT_HYPOTHESIS=thorough $(PYTEST)

SEEDS ?= 0-1999
simulate: $(READY)
	$(BIN)/python -m redraft.app.testing --seeds $(SEEDS)

faults: $(READY)
	$(BIN)/python -m tests.app.testing.find_faults

SAMPLE ?= 800
SEED ?= 1
mutants: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[mutants]'
	$(BIN)/python -m tests.mutants --sample $(SAMPLE) --seed $(SEED)

SCALE ?= 0.01
CAMPAIGN ?=
chaos: $(READY)
	$(BIN)/python -m tests.chaos.campaign --scale $(SCALE) $(CAMPAIGN)

kills: $(READY)
	$(BIN)/pytest -m chaos

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy $(CODE)

contracts: $(READY)
	$(BIN)/lint-imports

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: lint types contracts docs test-all simulate

benchmark: $(READY)
	$(BIN)/python benchmarks/loop.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
