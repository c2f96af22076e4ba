# Two commands do everything: `make demo` and `make test`. They need Python 3.11 or newer, git and make.

PYTHON ?= python3
BIN := .venv/bin
# `make test REQUIRE_ALL=1` makes a test fail that would skip for want of a part (shared data, a tool).
REQUIRE_ALL ?= 0
PATHS := pipeline plugins tests benchmarks tools examples

.PHONY: demo test check lint types tests gpu-test gpu-bench docs examples bench fuzz install dev clean

demo: install
	$(BIN)/sightline run configs/demo.yaml

test: check

check: lint types docs tests

lint: dev
	$(BIN)/ruff check $(PATHS)
	$(BIN)/ruff format --check $(PATHS)
	$(BIN)/python -m tools.vocabulary

types: dev
	$(BIN)/mypy

# Two files of tests at a time: while one waits for a camera, the other computes; those that take long come first. A test
# that hangs or crashes ends the run. Modules are compiled first, because many tests start processes.
tests: dev
	$(BIN)/python -m compileall -q pipeline plugins tools
	SIGHTLINE_REQUIRE_ALL=$(REQUIRE_ALL) $(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder \
		--max-worker-restart 0 tests/integration tests/parity tests/conformance tests/unit

# On a machine with an NVIDIA GPU.
gpu-test: dev
	$(BIN)/python -m pip install --quiet --editable '.[gpu]'
	$(BIN)/pytest -m gpu -rs tests/gpu

# On one, too: `make gpu-bench CLIPS="one.mp4 other.mp4"`, best with pictures of 1920x1080.
CLIPS ?= sample_videos/gate.mp4
gpu-bench: dev
	$(BIN)/python -m pip install --quiet --editable '.[gpu]'
	$(BIN)/python -m benchmarks.gpu_preprocess
	$(BIN)/python -m benchmarks.gpu_decode $(CLIPS)
	$(BIN)/python -m benchmarks.gpu_models $(firstword $(CLIPS))
	$(BIN)/python -m benchmarks.gpu_encode $(firstword $(CLIPS))

docs: dev
	$(BIN)/python -m tools.docs --check

# The other contestants' parts; GStreamer's come from the system: python3-gi gir1.2-gst-plugins-base-1.0 gstreamer1.0-libav
bench: dev
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m pip install --quiet --no-deps 'trackers>=2.6' 'supervision>=0.31'
	$(BIN)/python -m benchmarks.pipelines --write

# Wrong input made at random; what fails is kept below out/fuzz, and `make fuzz FUZZ=--replay` tries that again.
MINUTES ?= 10
FUZZ ?=
fuzz: dev
	$(BIN)/python -m tools.fuzz --minutes $(MINUTES) $(FUZZ)

install: .venv/.installed
dev: .venv/.dev

.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || (echo "Sightline needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/.dev: .venv/.installed
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

clean:
	rm -rf .venv out build dist .mypy_cache .ruff_cache .pytest_cache
