# Every target does its own set-up: a virtual environment in .venv with the exact tested set of packages.
#
#   make quickstart                       synthetic delivery -> store -> dataset -> both formats -> trained policy
#   make quickstart RAW=DIR VENDOR=NAME   the same on a delivery of your own
#   make test                             all tests but the heavy ones; PYTEST_ARGS="-k name -x" goes to pytest
#   make bench-store                      video and numbers of the store against the usual ways (needs ../shared/data)
#   make check                            format, lint, types, import contracts, tests
#
# JOBS=4 runs the tests in four processes. PYTHON=python3.12 chooses the interpreter (3.11 to 3.13). pip's own settings apply: to get CPU builds of torch
# on a machine without a GPU, set PIP_EXTRA_INDEX_URL to the CPU index that PyTorch's install page names.

PYTHON ?= python3
VENV ?= .venv
STORE ?=
RAW ?=
VENDOR ?=
PYTEST_ARGS ?=
JOBS ?= 2

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export DAGSTER_DISABLE_TELEMETRY := 1

.DEFAULT_GOAL := help
.PHONY: help setup quickstart test test-all check format wheel bench-env-codec bench-env-lerobot bench-store clean

help:
	@sed -n 's/^#   //p' Makefile

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else f"Python 3.11 to 3.13 is needed, $(PYTHON) is {v[0]}.{v[1]}. Say which one: make ... PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

setup: $(STAMP)

quickstart: $(STAMP)
	$(BIN)/egopipe quickstart $(if $(RAW),--raw "$(RAW)") $(if $(VENDOR),--vendor "$(VENDOR)") $(if $(STORE),--store "$(STORE)")

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

test-all: $(STAMP)
	EGODATA_KILLS=500 EGODATA_CORRUPTIONS=1000 $(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "not slow" -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(STAMP)
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

# torchcodec needs shared FFmpeg libraries of the machine (Debian: ffmpeg), so it lives in an environment of its own.
bench-env-codec:
	@test -x .venv-codec/bin/python || $(PYTHON) -m venv .venv-codec
	@.venv-codec/bin/python -m pip install --quiet --disable-pip-version-check 'torchcodec==0.12.*' torch==2.13.0 numpy \
	  && .venv-codec/bin/python -c 'from torchcodec.decoders import VideoDecoder' \
	  || { echo 'torchcodec cannot be used here (no wheel, or no FFmpeg libraries): AV1 will be read by dav1d through PyAV'; rm -rf .venv-codec; }

# The public LeRobot loaders want Python 3.12, a torch of their own and several GB, so they live apart; without them their tests and benchmark skip.
LEROBOT_PYTHON ?= python3.12
bench-env-lerobot:
	@test -x .venv-lerobot/bin/python || $(LEROBOT_PYTHON) -m venv .venv-lerobot
	@.venv-lerobot/bin/python -m pip install --quiet --disable-pip-version-check --pre 'lerobot-lancedb==0.3.*' 'lerobot[dataset]==0.6.*' \
	  && .venv-lerobot/bin/python -c 'import lerobot_lancedb; from torchcodec.decoders import VideoDecoder' \
	  || { echo 'lerobot cannot be used here (no Python 3.12, no wheel, or no FFmpeg libraries): its tests and benchmark will be skipped'; rm -rf .venv-lerobot; }

bench-store: $(STAMP)
	cd benchmarks && PYTHONPATH=.. ../$(BIN)/python store_video.py --data ../../shared/data \
	  $(if $(wildcard .venv-codec/bin/python),--codec-python $(CURDIR)/.venv-codec/bin/python)
	$(BIN)/python benchmarks/numeric_windows.py

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
