# One command does here what CI does there. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3.11
BIN := .venv/bin
.DEFAULT_GOAL := help

.PHONY: help setup lock check check-reference check-traces reference test test-fast test-engine test-engine-all bench bench-load bench-million bench-router demo clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
	  | while IFS='|' read -r name text; do printf '  make %-16s %s\n' "$$name" "$$text"; done

setup:  ## make .venv with all that is needed; a second time it takes a second
	@command -v $(PYTHON) >/dev/null || { echo "error: there is no $(PYTHON); name one: make setup PYTHON=..." >&2; exit 3; }
	@$(PYTHON) -B -m tools.install

lock: setup  ## resolve requirements/*.in anew; pins that still fit stay
	@$(BIN)/python -m tools.lock

check:  ## lint, types, shape and layers of the code, and its texts
	$(BIN)/ruff check .
	$(BIN)/mypy testbed failure_injection tests tools
	@$(BIN)/python tools/measure.py --check tools/limits.json testbed failure_injection >/dev/null
	@$(BIN)/python tools/measure.py --check tools/limits_tests.json tests >/dev/null
	@$(BIN)/python -m tools.check_text
	@$(BIN)/pytest -q tests/test_layers.py

check-reference:  ## rebuild the committed run's report from its journal, and compare
	@$(BIN)/python -m tools.check_reference

test: test-fast test-engine  ## all tests

# Where the environment keeps Python from writing bytecode, each process of a test would compile our code anew.
test-fast test-engine test-engine-all: export PYTHONDONTWRITEBYTECODE =

test-fast:  ## tests that need no Ray and no engine, in two processes
	$(BIN)/pytest -n 2 -m "not ray and not engine and not engine_all"

# pytest ends with 5 where it finds no test; while a tier has none, that is right.
test-engine:  ## tests with Ray, then with real engines, one at a time
	$(BIN)/pytest --timeout=300 -m "ray and not engine" || [ $$? -eq 5 ]
	$(BIN)/pytest --timeout=1200 -m "engine and not engine_all" || [ $$? -eq 5 ]

# Its page is written whatever came of it; commit it with what it tested.
test-engine-all:  ## what takes too long for `test`: over an hour with real engines; writes docs/engine-tests.md
	$(BIN)/pytest --timeout=3000 -m engine_all --junitxml=build/engine-all.xml; ended=$$?; \
	  $(BIN)/python -m tools.record_tests build/engine-all.xml && exit $$ended

check-traces:  ## compare whole trace files with known figures; DIR=FOLDER, else $TRACES_DIR or ../shared/traces
	@$(BIN)/python -m tools.check_traces $(DIR)

reference:  ## make RUN=results/NAME the committed reference run
	$(BIN)/python -m tools.commit_run $(RUN)

bench: bench-load bench-router  ## all benchmarks

# The tools are installed in environments of their own, in the cache folder or where FOLDER says. ARGS=--quick is once.
bench-load:  ## load generators side by side, hours; writes docs/bench-load.md
	$(BIN)/python -m bench.load.run $(if $(FOLDER),--folder $(FOLDER)) $(ARGS)

bench-million:  ## a million requests and what they cost in memory, ten minutes; writes docs/bench-million.md
	$(BIN)/python -m bench.load.million $(ARGS)

bench-router:  ## what our router, vllm-router and nginx add, three minutes; writes docs/bench-router.md
	$(BIN)/python -m bench.router.run $(if $(FOLDER),--folder $(FOLDER)) $(ARGS)

demo: setup  ## the whole flow on this machine, no GPU needed: run, faults, report
	$(BIN)/testbed demo

clean:  ## remove .venv and the caches of the tools; runs in results/ stay
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find testbed failure_injection tests tools bench -name __pycache__ -prune -exec rm -rf {} +
