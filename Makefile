# Two commands do everything: `make demo` and `make test`. They need Python 3.11 or newer, git and make.

PYTHON ?= python3
BIN := .venv/bin
# With `make test REQUIRE_ALL=1`, a test fails instead of skipping when a part is missing (shared data, a tool).
REQUIRE_ALL ?= 0
PATHS := pipeline plugins tests benchmarks tools examples

.PHONY: demo test check lint types audit rewritten tests coverage gpu-test gpu-bench docs bench fuzz mutate lock release install dev clean

demo: install
	$(BIN)/sightline demo out/demo

test: check

# Lint ends in seconds and comes first. Types take more than a minute of one core and advisories wait for a network, so
# that the tests, which also build the site, begin meanwhile. A mistake in types is printed when it is found, and fails
# the gate at its end.
check: lint
	$(MAKE) --jobs 3 types audit tests

lint: dev
	$(BIN)/ruff check $(PATHS)
	$(BIN)/ruff format --check $(PATHS)
	$(BIN)/python -m tools.vocabulary

types: dev
	$(BIN)/mypy

# Known vulnerabilities of the locked dependencies; where no advisories can be had, it says so and passes.
audit: dev
	$(BIN)/python -m tools.release.audit

# pytest rewrites the asserts of every test module, and each of its processes would do so again. A module that cannot be
# imported is reported by the tests.
rewritten: dev
	-@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only $(SUITES) > /dev/null

# Six test files at a time: while some wait for a camera or a broker, the others compute (`tests/conftest.py` mixes
# them). A test that hangs or crashes ends the run. Modules are compiled first, because many tests start processes.
PYTEST := $(BIN)/pytest --numprocesses 6 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --durations 25 --durations-min 5
SUITES := tests/integration tests/parity tests/conformance tests/unit
tests: rewritten
	$(BIN)/python -m compileall -q pipeline plugins tools
	SIGHTLINE_REQUIRE_ALL=$(REQUIRE_ALL) $(PYTEST) $(SUITES)

# The same with coverage: a table of files that are not fully covered, and out/coverage.xml.
coverage: dev
	SIGHTLINE_REQUIRE_ALL=$(REQUIRE_ALL) $(PYTEST) --cov --cov-report=term --cov-report=xml $(SUITES)

# On a machine with an NVIDIA GPU; with a driver for CUDA 12: `make gpu-test GPU_EXTRAS=gpu-cu12,tensorrt-cu12`.
GPU_EXTRAS ?= gpu,tensorrt
gpu-test: dev
	$(BIN)/python -m pip install --quiet --editable '.[$(GPU_EXTRAS)]'
	$(BIN)/pytest -m gpu -rs tests/gpu

# There, too: `make gpu-bench CLIPS="one.mp4 other.mp4"`, best with clips of 1920x1080.
CLIPS ?= sample_videos/gate.mp4
gpu-bench: dev
	$(BIN)/python -m pip install --quiet --editable '.[$(GPU_EXTRAS)]'
	$(BIN)/python -m benchmarks.gpu_preprocess
	$(BIN)/python -m benchmarks.gpu_decode $(CLIPS)
	$(BIN)/python -m benchmarks.gpu_models $(firstword $(CLIPS))
	$(BIN)/python -m benchmarks.gpu_encode $(firstword $(CLIPS))

# Checks the documentation and builds the site into site/VERSION; other versions there stay. A release is built with
# `make docs VERSION=0.3.0`. Look at it: `.venv/bin/python -m http.server --directory site`.
VERSION ?= dev
docs: dev
	$(BIN)/python -m tools.docs --check --site site --version $(VERSION)

# Parts of the other contestants; those of GStreamer come from the system: python3-gi gir1.2-gst-plugins-base-1.0 gstreamer1.0-libav
bench: dev
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m pip install --quiet --no-deps 'trackers>=2.6' 'supervision>=0.31'
	$(BIN)/python -m benchmarks.pipelines --write

# Random wrong input; failures are kept in out/fuzz, and `make fuzz FUZZ=--replay` tries them again.
MINUTES ?= 10
FUZZ ?=
fuzz: dev
	$(BIN)/python -m tools.fuzz --minutes $(MINUTES) $(FUZZ)

# Small changes to the code, to see whether tests notice them; those that none does are listed in out/mutate.txt.
# `make mutate MINUTES=30 PATHS=plugins/sightline_plugins/track` changes that folder only.
MUTATE ?=
mutate: dev
	$(BIN)/python -m tools.mutate --minutes $(MINUTES) $(MUTATE) $(if $(filter command,$(origin PATHS)),$(PATHS))

# Pin every dependency by version and hash in requirements.lock; `make dev LOCKED=1` installs from it.
LOCKED ?=
lock: dev
	$(BIN)/python -m pip install --quiet 'uv>=0.9'
	$(BIN)/uv lock --quiet
	echo '# Every dependency of Sightline and of its development tools. Made by `make lock`; used by `make dev LOCKED=1`.' > requirements.lock
	$(BIN)/uv export --quiet --no-emit-project --no-emit-index-url --group dev --no-annotate --no-header >> requirements.lock
	rm uv.lock

# From a clean clone whose changelog begins with the version to checked artefacts in dist/; nothing is uploaded.
release: dev
	$(BIN)/python -m pip install --quiet --group release
	$(BIN)/python -m tools.release

install: .venv/.installed
dev: .venv/.dev

# The installation compiles the C sources, so it is repeated when they change (`python -m tools.release.wheel_hook`
# does only that).
.venv/.installed: pyproject.toml $(wildcard plugins/sightline_plugins/*/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || (echo "Sightline needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(if $(LOCKED),$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/.dev: .venv/.installed
	$(BIN)/python -m pip install --quiet --group dev
	$(BIN)/python -m pip install --quiet --no-deps 'trackeval>=1.3'
	@touch $@

clean:
	rm -rf .venv out build dist .mypy_cache .ruff_cache .pytest_cache
