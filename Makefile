# All there is to do in this checkout. Needed: make, and a Python >= 3.11. Environments are made on first use, and brought
# up to date when pyproject.toml changes.
#
#   make … PYTHON=python3.12    with this Python, in its own .venv-3.12, instead of those that .ci/find-python finds
#   make … ARGS='…'             more arguments for what the target runs
#   make check MODULE=…         the same for one module, by its path below dhaga/: make check MODULE=_sync/lock

.DEFAULT_GOAL := help

# ---- Pythons and environments ----

# Containers often set it. Most tests start a Python, which compiled asyncio and Dhaga anew: 7.2 s instead of 2.9 for
# tests/aio.
unexport PYTHONDONTWRITEBYTECODE

export PYTHON
ifneq ($(filter-out help clean,$(MAKECMDGOALS)),)
VERSIONS := $(shell PYTHON='$(PYTHON)' .ci/find-python $(if $(MODULE),--main))
ifeq ($(VERSIONS),)
$(error nothing done)
endif
endif
MAIN := $(firstword $(VERSIONS))
FREE_THREADED = $(shell PYTHON='$(PYTHON)' .ci/find-python --free-threaded)
OLDEST := $(lastword $(VERSIONS))
NEWEST := $(lastword $(sort $(VERSIONS)))

# To show what Dhaga does, one environment suffices; each Python is tested in one of its own. The one of the main Python,
# which find-python prints first, also has ruff and mypy to offer.
VENV := $(if $(PYTHON),.venv-$(MAIN),.venv)
TOOLS := .venv-$(MAIN)

# $(call install,ENVIRONMENT,VERSION,GROUP)
define install
	@echo "== $(1): install dhaga and the group $(3)"
	@$(1)/bin/python -c '' 2>/dev/null || "$$(.ci/find-python $(2))" -m venv --clear $(1)
	@.ci/install $(1) $(3)
	@touch $@
endef

# What an install reads; it compiles the accelerator (hatch_build.py).
INSTALLED_FROM := pyproject.toml hatch_build.py $(wildcard dhaga/_kernel/fast/*.[ch] dhaga/_kernel/fast/fast_paths/*.h)

.PRECIOUS: .venv-%/.test
.venv-%/.test: $(INSTALLED_FROM)
	$(call install,.venv-$*,$*,$(if $(filter %t,$*),test-free-threaded,test))

# The one of the main Python can test as well; one that was made for tests alone, while another Python was the main one,
# gets the tools here.
$(TOOLS)/.tools: $(INSTALLED_FROM)
	$(call install,$(TOOLS),$(MAIN),tools)

$(TOOLS)/.test: $(TOOLS)/.tools
	@touch $@

$(TOOLS)/.packages: $(TOOLS)/.tools
	$(call install,$(TOOLS),$(MAIN),packages)

$(VENV)/.examples: $(INSTALLED_FROM)
	$(call install,$(VENV),$(MAIN),examples)

$(VENV)/.bench: $(INSTALLED_FROM)
	$(call install,$(VENV),$(MAIN),bench)

.venv-docs/.docs: $(INSTALLED_FROM)
	$(call install,.venv-docs,$(MAIN),docs)

# What belongs together runs at the same time, as tests also wait, each part's output kept together where make can do that
# (4.0 and later); what fails keeps nothing else from being run. What is checked on every change mostly computes: one job
# a core.
JOBS := $(if $(filter test test-all,$(MAKECMDGOALS)),5,$(if $(filter check,$(MAKECMDGOALS)),2))
ifneq ($(JOBS),)
MAKEFLAGS += --keep-going --jobs=$(JOBS) $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
endif

# ---- what one can make ----

.PHONY: help demo check test test-all test-pure test-debug wheel instructions format-check lint types test-programs test-frameworks test-once test-ioloop test-kqueue test-floors test-arm64 test-windows test-slow test-slow-programs test-slow-library test-anywhere test-shuffled stdlib peers stress simulations test-simulated soak soak-night hostile bench tables check-instructions quick-bench quick-tables docs test-site package format clean

# The targets that a first change needs.
FIRST := demo check format test
help:  ## list these targets
	@awk -F ':.*## ' -v first=' $(FIRST) ' '/^[a-z0-9%.-]+:.*## / { \
	    line = sprintf("make %-19s %s\n", $$1, $$2); if (index(first, " " $$1 " ")) begin = begin line; else others = others line \
	} END { printf "To begin with:\n%s\nAll others:\n%s", begin, others }' Makefile

demo: $(VENV)/.examples  ## back up a real directory with dhagas and with threads, and print what that took
	$(VENV)/bin/python -m examples.backup.demo $(ARGS)

ifeq ($(MODULE),)
check: format-check lint check-types check-first check-second check-apart  ## on every change, below a minute: format, lint, types of dhaga/, quick tests
	@echo "== all passed, on Python $(MAIN)"
else
check: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m ruff format --quiet --diff .
	$(TOOLS)/bin/python -m ruff check --quiet .
	$(TOOLS)/bin/python -m mypy dhaga
	files=$$($(TOOLS)/bin/python -m tests.kit.mirror $(MODULE)) && \
	    $(TOOLS)/bin/python -m pytest -q $(QUICK) tests/test_layers.py tests/test_prose.py $$files $(ARGS)
endif

# Two halves that take about as long: what starts no process and is of no crowd.
QUICK := -m 'not slow and not once and not process and not crowd'
FIRST_HALF := tests/_kernel tests/_sync tests/_structured tests/_workers tests/_iowait tests/aio tests/debug tests/http
check-first: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m pytest -q $(QUICK) $(FIRST_HALF) $(ARGS)

check-second: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m pytest -q $(QUICK) $(MOST) $(addprefix --ignore=,$(FIRST_HALF) $(PROGRAMS) tests/soak tests/stdlib) $(ARGS)

# A simulation looks through all objects of its process, and forks it: after all other tests these take 101 s instead of 14.
APART := tests/simulation tests/test_pytest_plugin.py
MOST := $(addprefix --ignore=,$(APART))
check-apart: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m pytest -q $(QUICK) $(APART) $(ARGS)

check-types: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m mypy dhaga

test: format-check lint types test-first test-second test-apart test-readme  ## on one Python: format check, lint, types, the library's tests, README's programs
	@echo "== all passed, on Python $(MAIN)"

# The library's tests on the main Python are those of `test`.
OTHERS := $(if $(filter test-all,$(MAKECMDGOALS)),$(filter-out $(MAIN),$(VERSIONS) $(FREE_THREADED)))
test-all: test test-programs test-frameworks test-once $(OTHERS:%=test-%)  ## the same, the other programs', and the library's tests on every Python found
	@echo "== all passed, on Python $(MAIN) $(OTHERS)"

# With those that start processes, the halves are others. `lint` runs the tests of prose.
FIRST_LANE := $(FIRST_HALF) tests/compat tests/integrations tests/packages tests/servers tests/stdlib
test-first: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m tests.kit.suite -q -m 'not slow and not once' $(FIRST_LANE) $(ARGS)

test-second: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m tests.kit.suite -q -m 'not slow and not once' $(MOST) \
	    $(addprefix --ignore=,$(FIRST_LANE) tests/test_prose.py) $(ARGS)

test-apart: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m tests.kit.suite -q -m 'not slow and not once' $(APART) $(ARGS)

test-readme: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m tests.kit.suite -q -m 'once and not slow' tests/test_readme.py $(ARGS)

format-check: $(TOOLS)/.tools  ## is every file as `make format` leaves it?
	$(TOOLS)/bin/python -m ruff format --quiet --diff .

lint: $(TOOLS)/.tools  ## ruff's rules, and those of prose: first words of docstrings, banned turns
	$(TOOLS)/bin/python -m ruff check --quiet .
	$(TOOLS)/bin/python -m pytest -q tests/test_prose.py

types: $(TOOLS)/.tools  ## mypy, strict but for tests; `make test-once` adds pyright, and how much of the API is typed
	$(TOOLS)/bin/python -m mypy
	$(TOOLS)/bin/python -m mypy --config-file tests/mypy.ini

# What reads the text of the checkout: on the main Python alone. (Each environment's install compiles the accelerator.)
OF_TEXT := tests/kit tests/test_layers.py tests/test_mirror.py tests/test_packaging.py tests/test_prose.py
NOT_OF_TEXT := $(addprefix --ignore=,$(OF_TEXT))

# $(call suites,PYTHON,MARKS,"TESTS" "TESTS" …): each in a process of its own, one after the other
define suites
	status=0; for tests in $(3); do \
	    $(1) -m tests.kit.suite -q -m '$(2)' $$tests $(ARGS) || status=1; \
	done; exit $$status
endef

test-%: .venv-%/.test  ## the library's tests on one Python: make test-3.12
	@echo "== tests on Python $*"
	$(call suites,.venv-$*/bin/python,not slow and not once,"$(MOST) $(if $(filter $*,$(MAIN)),,$(NOT_OF_TEXT))" "$(APART)")

# What the accelerator has a part in: all of it on the oldest Python, the lower districts on the others. What is above
# these is the same code with and without the accelerator, and each Python runs it with.
LOWER := tests/_kernel tests/_sync tests/_structured tests/_workers tests/_iowait tests/aio
test-pure: $(VERSIONS:%=pure-%)  ## the library's tests without the accelerator, on every Python found

pure-%: .venv-%/.test  ## the same on one Python: make pure-3.12
	@echo "== pure Python, on Python $*"
	$(call suites,DHAGA_PURE=1 .venv-$*/bin/python,not slow and not once and not crowd,$(if $(filter $*,$(OLDEST)),"$(MOST) $(NOT_OF_TEXT)" "$(APART)","$(if $(filter $*,$(NEWEST)),$(LOWER),tests/_kernel tests/_sync)"))

# What runs on the main Python alone mostly waits for processes: three at once, beside the library's.
FRAMEWORKS := tests/integrations tests/packages
PROGRAMS := tests/benchmarks tests/examples $(FRAMEWORKS)
test-programs: $(TOOLS)/.tools  ## the tests of examples and benchmarks, on the main Python
	$(TOOLS)/bin/python -m tests.kit.suite -q -m 'once and not slow' $(filter-out $(FRAMEWORKS),$(PROGRAMS)) $(ARGS)

test-frameworks: $(TOOLS)/.packages  ## the tests of frameworks and packages, on the main Python
	$(TOOLS)/bin/python -m tests.kit.suite -q -m 'once and not slow' $(FRAMEWORKS) $(ARGS)

test-once: $(TOOLS)/.packages  ## the other tests of programs rather than the library, on the main Python
	$(call suites,$(TOOLS)/bin/python,once and not slow,"$(MOST) $(addprefix --ignore=,$(PROGRAMS) tests/test_readme.py tests/test_site.py)" "$(APART)")

test-anywhere: $(TOOLS)/.tools  ## `make test` as other people run it: no terminal, signals ignored, another run beside it, …
	$(TOOLS)/bin/python -m tests.anywhere $(ARGS)

# What waits for file descriptors, by one way or another.
PORTABLE := tests/_kernel tests/_iowait tests/aio tests/http tests/integrations tests/monkey tests/servers tests/_cli/test_serve.py \
    tests/scenarios/test_swap.py tests/scenarios/test_socket_waits.py tests/scenarios/test_patched_sockets.py \
    $(wildcard $(addprefix tests/test_,asyncio.py io.py os.py select*.py socket*.py ssl*.py stream*.py subprocess.py))
test-ioloop: $(TOOLS)/.tools  ## the tests with the portable poller instead of epoll or kqueue
	DHAGA_POLLER=ioloop $(TOOLS)/bin/python -m tests.kit.suite -q -m 'not slow and not once' $(PORTABLE) $(ARGS)

# A kqueue over epoll, for the code of macOS and BSD: tests/kit/kqueue. Of the tests that start processes, those about
# forks, signals and what a patched program waits with.
KQUEUE := PYTHONPATH=tests/kit/kqueue
KQUEUE_TESTS := tests/_kernel tests/_sync tests/_iowait tests/aio $(filter tests/test_%,$(PORTABLE))
KQUEUE_PROCESSES := tests/_kernel/test_fork.py tests/_kernel/test_signals.py tests/_sync/test_semlock.py tests/_iowait \
    tests/servers $(wildcard $(addprefix tests/test_,select*.py asyncio.py))
test-kqueue: $(TOOLS)/.tools  ## the tests of the kernel, primitives and sockets on a kqueue, which is made of Linux's epoll
	$(KQUEUE) $(TOOLS)/bin/python -c 'import select; select.kqueue'
	status=0; \
	$(KQUEUE) $(TOOLS)/bin/python -m tests.kit.suite -q -m 'not slow and not once and not crowd and not process' $(KQUEUE_TESTS) $(ARGS) || status=1; \
	$(KQUEUE) $(TOOLS)/bin/python -m tests.kit.suite -q -m 'not slow and not once and process' $(KQUEUE_PROCESSES) $(ARGS) || status=1; \
	exit $$status

# A CPython for aarch64 on another machine. DHAGA_ARM64 is a folder with two programs: `python ARGUMENTS…` runs it, with
# greenlet, Tornado and pytest, and `compile CHECKOUT` puts Dhaga beside those, with its accelerator cross-compiled.
# DHAGA_GET_ARM64 is a program that makes such a folder. Left out: what starts processes, needs other packages or reads the
# source. qemu keeps two real-time signals for itself, and the mocks of CPython 3.11.2, Debian's, check no arguments.
ARM64 := $(if $(DHAGA_ARM64),$(abspath $(DHAGA_ARM64)),$(if $(DHAGA_GET_ARM64),$(CURDIR)/.venv-arm64/cpython))
ON_ARM64 := tests/_sync tests/_structured tests/_kernel tests/test_socket.py tests/test_socket_stream.py tests/test_select.py
NOT_ON_ARM64 := $(addprefix --ignore=tests/_kernel/test_,environment.py foreign_names.py turn_budget.py look_then_act.py weak_sets.py) \
    $(addprefix --deselect=tests/_kernel/test_,waiter.py::test_only_the_waiter_makes_tickets \
    helper_threads.py::test_the_mask_is_the_former_one_after_a_handler_has_raised stdlib_face.py::test_tests_replace_it_by_a_mock)
.venv-arm64/cpython:
	$(DHAGA_GET_ARM64) $@
.venv-arm64/packages: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $@ --only-binary=:all: \
	    --platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64 --python-version 3.11 --implementation cp httptools
	@touch $@

ifeq ($(ARM64),)
test-arm64:
	@echo "nothing tested: neither DHAGA_ARM64 nor DHAGA_GET_ARM64 is set; see the Makefile"
else
test-arm64: .venv-arm64/packages $(if $(DHAGA_ARM64),,.venv-arm64/cpython)  ## the tests of the kernel, primitives and sockets on a CPython for aarch64, emulated
	$(ARM64)/compile $(CURDIR)
	@rm -rf .venv-arm64/checkout && mkdir -p .venv-arm64/checkout && cp -R tests pyproject.toml .venv-arm64/packages/* .venv-arm64/checkout
	cd .venv-arm64/checkout && $(ARM64)/python -m pytest -q -p no:cacheprovider -p _dhaga_pytest \
	    -m 'not slow and not once and not process and not crowd' $(ON_ARM64) $(NOT_ON_ARM64) $(ARGS)
endif

# A CPython for Windows under Wine. DHAGA_WINDOWS is a folder with a program `python ARGUMENTS…` that runs it, with
# greenlet, Tornado and pytest in its `site`. DHAGA_GET_WINDOWS is a program that makes such a folder. Paths of this
# machine are Z:\… there. Dhaga is pure Python there. Left out: tests that fork, use pipes as fds, read sources as UTF-8 by
# default, close a loop of the program's own, a Proactor loop, for which Tornado has a thread, or count on the bytes of TCP
# to arrive at once, or on its buffers to stay full. Certificates are made before, by the main Python.
# Also left out: test_of_many_threads_…. Wine refuses sends of several threads at once, and asyncio drops a wake then:
# docs/reference/platforms.md.
WINDOWS := $(if $(DHAGA_WINDOWS),$(abspath $(DHAGA_WINDOWS)),$(if $(DHAGA_GET_WINDOWS),$(CURDIR)/.venv-windows/cpython))
ON_WINDOWS := tests/_sync tests/_structured tests/test_queue.py tests/test_pool.py tests/scenarios/test_portable.py \
    tests/debug/test_loopback.py tests/test_ssl.py $(addprefix tests/servers/test_,tcp_tls.py one_process.py) \
    $(addprefix tests/_workers/test_,dhaga_pool.py offload.py) \
    $(addprefix tests/_kernel/test_,timeout.py cancellation.py current.py entries.py inner_waiter.py lap.py main_code.py scheduler.py \
    sleep.py system.py timers.py uncaught.py wait_queue.py wait_queue_leaving.py waiter.py windows.py)
NOT_ON_WINDOWS := --ignore=tests/_structured/test_scope_process.py $(addprefix --deselect=tests/, \
    _workers/test_offload.py::test_a_thread_outlives_a_caller_whose_loop_was_closed \
    _kernel/test_scheduler.py::test_a_scheduler_may_be_given_a_loop_to_run _kernel/test_waiter.py::test_only_the_waiter_makes_tickets \
    _kernel/test_waiter.py::test_of_many_threads_that_wake_one_park_exactly_one_wins \
    $(addprefix test_ssl.py::test_,in_a_coroutine_it_does_not_wait a_cancelled_reader_loses_no_byte a_hundred_connections_at_once \
    a_cancelled_writer_has_sent_a_prefix_and_the_next_is_whole after_unwrap_the_connection_goes_on_in_clear \
    writing_parks_while_the_buffer_is_full the_timeout_is_honoured[send the_timeout_is_honoured[write \
    the_timeout_bounds_the_wait_for_ones_turn_to_write with_timeout_0_it_raises_what_it_lacks closing_wakes_readers_and_writers \
    a_write_repeated_after_a_timeout_is_sent_once unwrap_finishes_what_was_broken_off))
WINDOWS_PROCESSES := tests/scenarios/test_portable.py tests/servers/test_one_process.py
ON_WINE = cd $(CURDIR)/.venv-windows/checkout && $(CURDIR)/.ci/on-wine $(WINDOWS)/python -m pytest -q -p no:cacheprovider -p _dhaga_pytest \
    -p tests.kit.wine.left_threads
.venv-windows/packages: $(TOOLS)/.tools
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $@ --only-binary=:all: \
	    --platform win_amd64 --python-version 3.13 httptools rich markdown-it-py mdurl pygments
	@touch $@
.venv-windows/cpython:  # through pipes: this Python opens no file as a stream
	: | $(DHAGA_GET_WINDOWS) $@ 2>&1 | cat

ifeq ($(WINDOWS),)
test-windows:
	@echo "nothing tested: neither DHAGA_WINDOWS nor DHAGA_GET_WINDOWS is set; see the Makefile"
else
test-windows: .venv-windows/packages $(if $(DHAGA_WINDOWS),,.venv-windows/cpython)  ## the tests of the primitives, sockets, TLS, servers and patched programs on a CPython for Windows, under Wine
	@rm -rf .venv-windows/checkout && mkdir -p .venv-windows/checkout && cp -R dhaga tests pyproject.toml .venv-windows/checkout
	$(TOOLS)/bin/python tests/kit/wine/trustme.py .venv-windows/checkout/certificates.json
	cd .venv-windows/checkout && cp -R ../packages/* tests/kit/wine/*.py dhaga/_pytest_entry/_dhaga_pytest.py .
	status=0; $(ON_WINE) -m 'not slow and not once and not process and not crowd' $(ON_WINDOWS) $(NOT_ON_WINDOWS) $(ARGS) || status=1; \
	$(ON_WINE) -m process $(WINDOWS_PROCESSES) $(ARGS) || status=1; exit $$status
endif

# The lowest versions that pyproject.toml allows: other environments have the newest. Old packages use what new Pythons
# have deprecated since.
.PRECIOUS: .venv-floors-%/.floors
.venv-floors-%/.floors: $(INSTALLED_FROM) .ci/floors
	@echo "== .venv-floors-$*: install dhaga[all] with the lowest versions"
	@"$$(.ci/find-python $*)" -m venv --clear .venv-floors-$*
	@.ci/floors .venv-floors-$*
	@touch $@

test-floors: $(VERSIONS:%=floors-%)  ## the tests of the kernel and the primitives with the lowest versions of all requirements, on every Python found

floors-%: .venv-floors-%/.floors  ## the same on one Python: make floors-3.12
	.venv-floors-$*/bin/python -m tests.kit.suite -q -m 'not slow and not once and not process and not crowd' \
	    -W ignore::DeprecationWarning tests/_kernel tests/_sync tests/_iowait $(ARGS)

test-slow: test-slow-programs test-slow-library  ## the tests that are too slow for every change, on the oldest Python

test-slow-programs: .venv-$(OLDEST)/.test  ## those of examples, benchmarks, frameworks and packages
	.venv-$(OLDEST)/bin/python -m tests.kit.suite -q -m slow $(PROGRAMS) $(ARGS)

test-slow-library: .venv-$(OLDEST)/.test  ## the other slow ones
	.venv-$(OLDEST)/bin/python -m tests.kit.suite -q -m slow $(addprefix --ignore=,$(PROGRAMS)) $(ARGS)

# What runs on a virtual clock and so can be shuffled. Left out: tests of run modes, fds and processes, and those of many
# thousand dhagas, where order plays no part.
SEEDS := 1 2 3
UNSHUFFLED := %/test_run_modes.py %/test_run_modes_guest.py %/test_deadlock.py %/test_poller.py %/test_edge_pollers.py %/test_ioloop_poller.py %/test_new_poller.py %/test_fd_watch.py %/test_fork.py \
    %/test_process_exit.py %/test_signals.py %/test_turn_budget.py
SHUFFLED := $(filter-out $(UNSHUFFLED),$(wildcard tests/_kernel/test_*.py tests/_structured/test_*.py \
    $(addprefix tests/_sync/test_,lock.py condition.py semaphore.py event.py barrier.py simple_queue.py local.py) \
    tests/test_threading.py tests/test_queue.py))
test-shuffled: $(TOOLS)/.tools  ## tests with the run queue shuffled: make test-shuffled SEEDS='1 2 3'
	@status=0; for seed in $(SEEDS); do \
	    echo "== seed $$seed"; \
	    $(TOOLS)/bin/python -m tests.kit.suite -q -m 'not slow and not process and not crowd' --dhaga-seed $$seed $(SHUFFLED) $(ARGS) || status=1; \
	done; exit $$status

stdlib: stdlib-$(OLDEST)  ## CPython's own tests under the patch on the oldest Python, all or the quick ones: make stdlib ARGS=--quick

stdlib-%: .venv-%/.test  ## the same on another Python: make stdlib-3.14
	.venv-$*/bin/python -m tests.stdlib $(ARGS)

peers: $(TOOLS)/.tools  ## suites of gevent, eventlet, zerorpc, swift and oslo on dhaga.compat, each beside its list of known failures: make peers ARGS=gevent
	$(TOOLS)/bin/python -m tests.peers $(ARGS)

# The C code, compiled without a warning, in a CPython that checks itself, and under AddressSanitizer. greenlet moves
# stacks, so asan-stack is off; it throws C++ exceptions, which the sanitizer finds only in a libstdc++ that is there
# from the start.
DEBUG_PYTHON := $(shell command -v python3.11-dbg)
SANITIZED := -fsanitize=address,undefined -fno-sanitize-recover=undefined
SANITIZER = $(shell cc -print-file-name=libasan.so) $(shell cc -print-file-name=libstdc++.so.6)
UNDER_SANITIZER = LD_PRELOAD="$(SANITIZER)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONWARNINGS=ignore
.venv-debug/.test: $(INSTALLED_FROM)
	@echo "== .venv-debug: build greenlet and dhaga for $(DEBUG_PYTHON)"
	@$(DEBUG_PYTHON) -m venv --clear .venv-debug
	@.venv-debug/bin/python -W ignore -m pip install -qq --no-binary greenlet greenlet tornado hatchling hatch-fancy-pypi-readme httptools requests pytest trustme hypothesis
	@CFLAGS='-g -O1 -Wextra -Wshadow -Werror --param asan-stack=0 $(SANITIZED)' LDFLAGS='$(SANITIZED)' \
	    .venv-debug/bin/python -W ignore -m pip install -qq --no-build-isolation --no-deps --editable .
	@$(UNDER_SANITIZER) .venv-debug/bin/python -c 'from dhaga._kernel.fast.accelerator import *; fast_paths.twin, chunks.figures'
	@touch $@

WITH_COMPILED := tests/test_queue.py tests/test_socket.py tests/test_ssl.py \
    $(addprefix tests/http/test_,request_parser_known.py response_twins.py idle_timer.py) \
    $(addprefix tests/_kernel/test_,compiled.py compiled_memory.py compiled_replaced.py compiled_signals.py compiled_slots.py sleep.py timers.py wait_queue.py) \
    $(addprefix tests/_sync/test_,lock.py condition.py condition_order.py event.py semaphore.py simple_queue.py)
ifeq ($(DEBUG_PYTHON),)
test-debug:  ## the tests of what is compiled, in a debug build of CPython 3.11 and under AddressSanitizer
	@echo "nothing tested: there is no python3.11-dbg (Debian: apt-get install python3.11-dbg python3.11-venv g++)"
else
test-debug: .venv-debug/.test  ## the tests of what is compiled, in a debug build of CPython 3.11 and under AddressSanitizer
	$(UNDER_SANITIZER) .venv-debug/bin/python -m tests.kit.suite -q -m 'not slow and not once' $(WITH_COMPILED) $(ARGS)
endif

OPERATIONS := 10000000
stress: stress-$(MAIN)  ## 10 million operations on the primitives by 4 schedulers and 8 threads: make stress OPERATIONS=… SEED=…

stress-%: .venv-%/.test  ## the same on another Python: make stress-3.15t
	.venv-$*/bin/python -m tests.kit.suite -q tests/scenarios/test_across_threads.py --dhaga-operations $(OPERATIONS) \
	    $(if $(SEED),--dhaga-seed $(SEED)) $(ARGS)

RUNS := 10000
simulations: $(TOOLS)/.tools  ## 10,000 seeds of the log, the backup, HTTP clients and notifications, with faults: make simulations RUNS=…
	$(TOOLS)/bin/python -m tests.kit.suite -q tests/examples/test_simulated.py --dhaga-seeds $(RUNS) $(ARGS)

# The tests of what OS threads share; tests/kit/not_simulated.toml lists those that no simulation can run.
SCHEDULES := 200
SIMULATED := tests/_sync tests/_workers tests/scenarios/test_contended.py $(addprefix tests/test_,pool.py futures.py queue.py threading.py)
test-simulated: $(TOOLS)/.tools  ## the primitives' tests, by 200 schedules each, OS threads switched between any two lines: make test-simulated SCHEDULES=…
	DHAGA_PURE=1 PYTHONHASHSEED=0 $(TOOLS)/bin/python -m tests.kit.suite -q -m 'not slow and not once and not process and not crowd' \
	    --dhaga-simulated $(SCHEDULES) $(SIMULATED) $(ARGS)

SECONDS := 600
soak: $(TOOLS)/.tools  ## services under cancels, resets, signals, want of fds, for minutes: make soak SECONDS=… SEED=…
	$(TOOLS)/bin/python -m tests.soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

HOURS := 8
NIGHT := build/soak-night
soak-night: $(TOOLS)/.packages  ## a service under an agent, reloads, dying clients, PostgreSQL and Redis going away, for 8 hours: make soak-night HOURS=…
	@mkdir -p build
	status=0; $(TOOLS)/bin/python -m tests.soak.night --hours $(HOURS) --record $(NIGHT).jsonl $(ARGS) || status=1; \
	$(TOOLS)/bin/python -m tests.soak.night.chart $(NIGHT).jsonl $(NIGHT).svg; exit $$status

hostile: $(TOOLS)/.tools  ## hostile clients beside an ordinary one, whose p99 is printed: make hostile ARGS='--targets serve'
	$(TOOLS)/bin/python -m tests.hostile $(ARGS)

instructions: .venv-$(OLDEST)/.test .venv-$(MAIN)/.test  ## instructions per operation and request, beside those recorded: make instructions ARGS=--check
	status=0; for version in $(sort $(OLDEST) $(MAIN)); do \
	    .venv-$$version/bin/python -m benchmarks.instructions $(ARGS) || status=1; done; exit $$status

bench: $(VENV)/.bench  ## measure the kernel beside gevent, asyncio, uvloop, threads and the raw limits
	$(VENV)/bin/python -m benchmarks.kernel $(ARGS)

tables: $(VENV)/.bench  ## repeat the experiments, each beside its rivals, and make the report: make tables ARGS=--quick
	$(VENV)/bin/python -m benchmarks.tables $(ARGS)

# The last three at their smallest size, as in CI: targets of one make, so that they can run at the same time.
check-instructions: ARGS = --check
check-instructions: instructions  ## the same, and fail if there are more instructions than recorded

quick-bench: ARGS = --quick --only yield-100 spawn-join lock-100 queue-ping-pong socketpair echo-100
quick-bench: bench  ## measure a few rows at the smallest size: does all of it run?

quick-tables: ARGS = --quick
quick-tables: tables  ## the experiments at the smallest size: does all of it run?

docs: .venv-docs/.docs  ## build the documents, offline, warnings as errors; it prints where to open them
	.venv-docs/bin/python -m sphinx -b html -n -W --keep-going -q -d docs/_build/doctrees docs docs/_build/html $(ARGS)
	@echo "== open file://$(CURDIR)/docs/_build/html/index.html"

test-site: docs $(TOOLS)/.tools  ## the built documents in a browser, at the widths of a phone and of a desk
	DHAGA_SITE=docs/_build/html $(TOOLS)/bin/python -m pytest -q tests/test_site.py $(ARGS)

package: $(TOOLS)/.tools  ## build wheel and sdist into dist/, check them as an index would, and run each installed alone
	.ci/package $(TOOLS)

wheel:  ## build the sdist, the pure wheel, and for every Python found one with the accelerator, into dist/; try each in a clean environment
	.ci/wheel $(VERSIONS)

format: $(TOOLS)/.tools  ## format every file, and mend what ruff can mend
	$(TOOLS)/bin/python -m ruff format .
	$(TOOLS)/bin/python -m ruff check --fix .

clean:  ## remove environments, caches and builds
	rm -rf .venv .venv-* build dist sbom docs/_build docs/reference/api htmlcov .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
