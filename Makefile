# `make serve` and `make test` need Python, a C compiler and make; everything else is optional. `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BIND ?= 127.0.0.1:8000
INSTALL := $(BIN)/python -m pip install --quiet --no-compile
NATIVE := $(shell find syncless -name '*.pyx' -o -name '*.pxi' -o -name '*.pxd' -o -name '*.c' -o -name '*.h')

.PHONY: help serve test test-under-load check lint bench bench-core clean wheels release portable docs docs-serve fidelity asyncio-suite stackless-suite gevent-suite eventlet-suite autobahn storm fuzz sanitize simulate soak

help:  ## this list
	@awk -F ' *## *' '/^[a-z-]+:.*##/ { sub(/:.*/, "", $$1); printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 10) and sys.exit("syncless needs Python 3.10 or newer, and $(PYTHON) is " + sys.version.split()[0] + "; choose another: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip

$(VENV)/.tools: $(BIN)/python pyproject.toml
	$(INSTALL) --group build
	@touch $@

$(VENV)/.compiled: $(VENV)/.tools setup.py $(NATIVE)
	@echo "building syncless for $$($(BIN)/python -V): all of it takes about 150 s, divided by $$(nproc 2>/dev/null || echo '?') processors"
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

$(VENV)/.built: $(VENV)/.compiled
	$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/.testing: $(VENV)/.tools
	$(INSTALL) --group test
	@touch $@

$(VENV)/.tested: $(VENV)/.built $(VENV)/.testing
	@touch $@

$(VENV)/.clients: $(VENV)/.testing
	$(INSTALL) --group clients
	-$(INSTALL) --group drivers
	-$(INSTALL) --group tools
	@touch $@

$(VENV)/.linted: $(VENV)/.tools
	$(INSTALL) --group lint
	@touch $@

serve: $(VENV)/.built  ## build, and serve the demo application; BIND=host:port chooses where
	$(BIN)/python -m syncless examples.demo --bind $(BIND)

test: $(VENV)/.tested  ## build, and run the tests of what is promised; ARGS chooses others, as of pytest: ARGS="-m 'not slow'"
	$(BIN)/python -m tests $(ARGS)

check:  ## everything that is checked, part by part; FROM=part goes on at one; ARGS="--only part", ARGS=--list
	$(PYTHON) -m tests.parts $(if $(FROM),--from $(FROM)) $(ARGS)

test-under-load: $(VENV)/.built $(VENV)/.clients  ## the tests beside busy loops, stopped at random moments, SEED=number brings those back; ARGS as of test
	SEED=$(SEED) $(BIN)/python -m tests.underload $(ARGS)

lint: $(VENV)/.linted $(VENV)/.tested  ## ruff, mypy, cython-lint, uses without a new look, how mypy and pyright see the public types, files of the forge, and words
	$(BIN)/ruff check .
	$(BIN)/mypy
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/cython-lint syncless
	$(BIN)/python -m tests.switches
	$(BIN)/python -m tests.prose
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -rs tests/test_typing.py tests/test_release.py

$(VENV)/.documented: $(VENV)/.built
	$(INSTALL) --group docs
	@touch $@

docs: $(VENV)/.documented  ## build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

docs-serve: $(VENV)/.documented  ## show the documentation site on http://127.0.0.1:8001/ while you write it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --dev-addr 127.0.0.1:8001

$(VENV)/.benched: $(VENV)/.tested
	$(INSTALL) gevent eventlet goless uvloop httptools granian gunicorn waitress cheroot uvicorn hypercorn fastapi python-multipart requests Cython
	-$(INSTALL) bjoern fastpysgi freastal h2corn peregrine-server pyruvate psycogreen
	@touch $@

bench: $(VENV)/.benched  ## the 2009 experiment and its peers; results go to benchmark/results/
	$(BIN)/python -m benchmark $(ARGS)

bench-core: $(VENV)/.benched  ## the engine beside gevent, eventlet, asyncio, uvloop, threads and Go
	$(BIN)/python -m benchmark engine $(ARGS)

fuzz: $(VENV)/.tested  ## random bytes for the web server, SECONDS=600 by default; SEED=number brings a run back
	$(BIN)/python -X faulthandler -m tests.fuzz --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -X faulthandler -m tests.fuzz_http2 --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

soak: $(VENV)/.tested  ## good and bad clients, kills and reloads, native handlers, proxies, SECONDS=300 by default; ARGS="--takeovers 10000": threads stand by
	$(BIN)/python -m tests.soak --seconds $(or $(SECONDS),300) $(ARGS)

storm: $(VENV)/.built $(VENV)/.clients  ## queries, kills and deadlines through drivers, QUERIES=200000 by default
	SYNCLESS_TEST_SECONDS=7200 SYNCLESS_TEST_QUERIES=$(or $(QUERIES),200000) $(BIN)/python -m pytest tests/patches/test_clients.py tests/patches/test_interrupted.py -k storm $(ARGS)

fidelity: $(VENV)/.tested  ## the interpreter's own tests, patched, beside the unpatched baseline; ARGS="test_socket -v" chooses
	$(BIN)/python -m tests.fidelity $(ARGS)

asyncio-suite: $(VENV)/.tested  ## the interpreter's own tests of asyncio on our event loop; ARGS="--park test_tasks" chooses
	$(BIN)/python -m tests.asyncio_suite $(ARGS)

stackless-suite: $(VENV)/.tested  ## a test-suite for Stackless, SUITE=folder of your copy, against syncless.stackless; ARGS="test_channel -v" chooses
	$(BIN)/python -m tests.stackless_suite $(SUITE) $(ARGS)

gevent-suite: $(VENV)/.tested $(VENV)/.clients  ## gevent's own tests, with gevent on our loop; ARGS="test__pool -v" chooses
	$(BIN)/python -m tests.gevent_suite $(ARGS)

eventlet-suite: $(VENV)/.tested  ## eventlet's own tests, SUITE=folder with a copy of its tests/, against syncless.eventlet; ARGS="queue_test -v" chooses
	$(BIN)/python -m tests.eventlet_suite $(SUITE) $(ARGS)

autobahn: $(VENV)/.tested  ## WebSockets, by Autobahn's fuzzing client, WSTEST="python2.7 -m autobahntestsuite.wstest"; ARGS="--cases 7.*"
	$(BIN)/python -m tests.autobahn $(ARGS) $(WSTEST)

sanitize: $(VENV)/.tested  ## the tests of the native code under AddressSanitizer and UndefinedBehaviorSanitizer
	PYTHON=$(abspath $(BIN)/python) ./tests/sanitize.sh $(ARGS)

simulate: $(VENV)/.tested  ## the server and its clients under schedules, faults and time of a seed, SECONDS=60 by default; SEED=number
	PYTHON=$(abspath $(BIN)/python) ./tests/sanitize.sh --simulate --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED)) $(ARGS)

wheels: $(BIN)/python  ## wheels in dist/, each tried: for all Pythons with docker or podman, else for this one
	./.ci/wheels $(BIN)/python

release: $(BIN)/python  ## sdist and wheels in dist/, checked, each tried on every Python here; PYTHONS="3.11 3.12" chooses
	./.ci/release $(BIN)/python $(PYTHONS)

portable: $(VENV)/.tested  ## the main tests in a build without the facilities of Linux; ARGS goes to pytest
	PYTHON=$(BIN)/python ./tests/portable.sh $(ARGS)

clean:  ## remove what was built
	rm -rf build dist *.egg-info $(VENV)
	find syncless -name '*.so' -delete
