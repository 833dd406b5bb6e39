# All there is to do in this checkout. Needed: make, and a Python >= 3.11. Environments are made on first use, and brought
# up to date when pyproject.toml changes.
#
#   make … PYTHON=python3.12    with this Python, in its own .venv-3.12, instead of those that .ci/find-python finds
#   make … ARGS='…'             more arguments for what the target runs

.DEFAULT_GOAL := help

# ---- Pythons and environments ----

export PYTHON
ifneq ($(filter-out help clean,$(MAKECMDGOALS)),)
VERSIONS := $(shell PYTHON='$(PYTHON)' .ci/find-python)
ifeq ($(VERSIONS),)
$(error nothing done)
endif
endif
NEWEST := $(firstword $(VERSIONS))
OLDEST := $(lastword $(VERSIONS))

# To show what Dhaga does, one environment suffices; each Python is tested in one of its own, the newest of which also has
# ruff and mypy to offer.
VENV := $(if $(PYTHON),.venv-$(NEWEST),.venv)
TOOLS := .venv-$(NEWEST)

# $(call install,ENVIRONMENT,VERSION,EXTRA)
define install
	@echo "== $(1): install dhaga[$(3)]"
	@$(1)/bin/python -c '' 2>/dev/null || "$$(.ci/find-python $(2))" -m venv --clear $(1)
	@.ci/install $(1) $(3)
	@touch $@
endef

.PRECIOUS: .venv-%/.test
.venv-%/.test: pyproject.toml
	$(call install,.venv-$*,$*,test)

$(VENV)/.examples: pyproject.toml
	$(call install,$(VENV),$(NEWEST),examples)

$(VENV)/.bench: pyproject.toml
	$(call install,$(VENV),$(NEWEST),bench)

# The Pythons are tested at the same time, as tests also wait (on two cores 180 s, of which 165 are computed), each one's
# output kept together where make can do that (4.0 and later).
ifneq ($(filter test,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=5 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
endif

# ---- what one can make ----

.PHONY: help demo test format-check lint types test-programs test-once test-ioloop test-slow test-slow-programs test-slow-library test-shuffled stdlib stress soak bench tables format clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z%.-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.examples  ## back up a real directory with dhagas and with threads, and print what that took
	$(VENV)/bin/python -m examples.backup.demo $(ARGS)

test: format-check lint types test-programs $(VERSIONS:%=test-%) test-once  ## format check, lint, types, and the tests on every Python found
	@echo "== all passed, on Python $(VERSIONS)"

format-check: $(TOOLS)/.test  ## is every file as `make format` leaves it?
	$(TOOLS)/bin/python -m ruff format --quiet --diff .

lint: $(TOOLS)/.test  ## ruff's rules
	$(TOOLS)/bin/python -m ruff check --quiet .

types: $(TOOLS)/.test  ## mypy, strict
	$(TOOLS)/bin/python -m mypy

test-%: .venv-%/.test  ## the tests on one Python: make test-3.12
	@echo "== tests on Python $*"
	.venv-$*/bin/python -m tests.suite -q -m 'not slow and not once' $(ARGS)

# What runs on the newest Python alone mostly waits for processes: two at once, beside the Pythons.
PROGRAMS := tests/benchmarks tests/examples tests/integrations tests/packages
test-programs: $(TOOLS)/.test  ## the tests of examples, benchmarks, frameworks and packages, on the newest Python
	$(TOOLS)/bin/python -m tests.suite -q -m 'once and not slow' $(PROGRAMS) $(ARGS)

test-once: $(TOOLS)/.test  ## the other tests of programs rather than the library, on the newest Python
	$(TOOLS)/bin/python -m tests.suite -q -m 'once and not slow' $(addprefix --ignore=,$(PROGRAMS)) $(ARGS)

# What waits for file descriptors, by one way or another.
PORTABLE := tests/kernel tests/http tests/integrations $(wildcard $(addprefix tests/test_,aio*.py asyncio.py fork.py \
    guest.py patched*.py select*.py serve*.py socket*.py ssl*.py stream*.py subprocess.py swap.py))
test-ioloop: $(TOOLS)/.test  ## the tests with the portable poller instead of epoll or kqueue
	DHAGA_POLLER=ioloop $(TOOLS)/bin/python -m tests.suite -q -m 'not slow and not once' $(PORTABLE) $(ARGS)

test-slow: test-slow-programs test-slow-library  ## the tests that are too slow for every change, on the oldest Python

test-slow-programs: .venv-$(OLDEST)/.test  ## those of examples, benchmarks, frameworks and packages
	.venv-$(OLDEST)/bin/python -m tests.suite -q -m slow $(PROGRAMS) $(ARGS)

test-slow-library: .venv-$(OLDEST)/.test  ## the other slow ones
	.venv-$(OLDEST)/bin/python -m tests.suite -q -m slow $(addprefix --ignore=,$(PROGRAMS)) $(ARGS)

# What runs on a virtual clock and so can be shuffled. Left out: tests of lives, fds and processes, and those of many
# thousand dhagas, where order plays no part.
SEEDS := 1 2 3
SHUFFLED := $(filter-out %_own_thread.py %_deadlock.py %_poller.py,$(wildcard tests/kernel/test_*.py $(addprefix \
    tests/test_,threading.py locks.py semaphores.py events.py queue.py local.py scope*.py)))
test-shuffled: $(TOOLS)/.test  ## tests with the run queue shuffled: make test-shuffled SEEDS='1 2 3'
	@status=0; for seed in $(SEEDS); do \
	    echo "== seed $$seed"; \
	    $(TOOLS)/bin/python -m tests.suite -q -k 'not thousand' --dhaga-seed $$seed $(SHUFFLED) $(ARGS) || status=1; \
	done; exit $$status

stdlib: .venv-$(OLDEST)/.test  ## CPython's own tests under the patch, all or the quick ones: make stdlib ARGS=--quick
	.venv-$(OLDEST)/bin/python -m tests.stdlib $(ARGS)

OPERATIONS := 10000000
stress: $(TOOLS)/.test  ## 10 million operations on the primitives by 4 schedulers and 8 threads: make stress OPERATIONS=…
	$(TOOLS)/bin/python -m tests.suite -q tests/test_across_threads.py --dhaga-operations $(OPERATIONS) $(ARGS)

SECONDS := 600
soak: $(TOOLS)/.test  ## services under cancels, resets, signals, want of fds, for minutes: make soak SECONDS=… ARGS='--seed N'
	$(TOOLS)/bin/python -m tests.soak --seconds $(SECONDS) $(ARGS)

bench: $(VENV)/.bench  ## measure the kernel beside gevent, asyncio, uvloop, threads and the raw limits
	$(VENV)/bin/python -m benchmarks.kernel $(ARGS)

tables: $(VENV)/.bench  ## repeat the experiments, each beside its rivals, and make the report: make tables ARGS=--quick
	$(VENV)/bin/python -m benchmarks.tables $(ARGS)

format: $(TOOLS)/.test  ## format every file, and mend what ruff can mend
	$(TOOLS)/bin/python -m ruff format .
	$(TOOLS)/bin/python -m ruff check --fix .

clean:  ## remove environments, caches and builds
	rm -rf .venv .venv-* build dist htmlcov .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
