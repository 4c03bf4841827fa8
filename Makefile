# The one door: what a person types is what CI runs. `make` alone lists the doors.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PY := .venv/bin/python
SETUP := .venv/.set-up
TESTS ?=

.PHONY: help setup stack demo bench test lint types unit payload pages ssh chaos chaos-stack fuzz audit stack-tests format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) ## the controller's environment: .venv with `fab` in it

# A Python that is named is looked at even where all is set up.
ifeq ($(origin PYTHON),command line)
.PHONY: $(SETUP)
endif

$(SETUP): pyproject.toml constraints/controller.hashes.txt .ci/setup
	@.ci/setup
	@touch $@

stack: $(SETUP) ## the real vLLM and speculators for a CPU (8 GB, in the user's cache, made once)
	@.ci/stack

demo: stack ## a loopback host, a tiny model, and the whole main job on it: gate, extract, verify
	@.venv/bin/fab demo

bench: stack ## the gate beside the ways without it, in one run: some minutes (ROUNDS=3)
	@$(PY) benchmarks/gate.py --rounds $(or $(ROUNDS),3)

test: setup sshd browser lint types stack ## everything that CI runs
	@$(PY) -m pytest -n 2 --dist loadgroup tests/unit tests/payload $(TESTS)
	@$(PY) -m pytest tests/pages $(TESTS)
	@$(PY) -m pytest -n 2 tests/fuzz $(TESTS)
	@$(PY) -m pytest -n 2 --dist loadgroup -m "not stack" tests/chaos $(TESTS)
	@$(PY) -m pytest tests/ssh tests/stack tests/chaos/test_real_stack.py tests/chaos/test_real_faults.py $(TESTS)

lint: $(SETUP) ## ruff: style and format
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

types: $(SETUP) ## mypy, strict; the payload also for the oldest Python of a host
	@.venv/bin/mypy
	@.venv/bin/mypy --python-version 3.10 --package remote

unit payload pages ssh: $(SETUP) ## the tests of one level
	@$(PY) -m pytest tests/$@ $(TESTS)

chaos: $(SETUP) ## random faults and crash points without the stack; N=5000 for long nights, SEED=n replays one schedule
	@$(if $(SEED),CHAOS_SEED=$(SEED) $(PY) -m pytest tests/chaos/test_schedules.py $(TESTS),\
	$(if $(N),CHAOS_N=$(N)) $(PY) -m pytest -n 2 -m "not stack" tests/chaos $(TESTS))

chaos-stack: stack sshd ## the same faults once with the real vLLM: kills, hangs, cuts, a full disk (4 minutes)
	@$(PY) -m pytest tests/chaos/test_real_faults.py $(TESTS)

fuzz: $(SETUP) ## every parser of what others write, against 20,000 strange inputs; N=50 for long nights
	@$(if $(N),FUZZ_N=$(N)) $(PY) -m pytest -n 2 tests/fuzz $(TESTS)

audit: $(SETUP) ## the pinned versions against the published advisories (needs the network; not a part of `make test`)
	@.ci/audit

stack-tests: stack ## the tests that run the real vLLM
	@$(PY) -m pytest tests/stack tests/chaos/test_real_stack.py tests/chaos/test_real_faults.py $(TESTS)

format: $(SETUP) ## let ruff format and mend
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

.PHONY: sshd browser
sshd browser:
	@.ci/$@

clean: ## remove what `make setup` and the tools made here (the stack stays in the user's cache)
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
