# Every check and every common task of ingot. A fresh clone needs Python 3.11+ and make, nothing else:
# the targets make their own environment in $(VENV) and remake it when pyproject.toml or this file changes.

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell \
	$(p) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(p))))
VENV ?= .venv
PYTEST_ARGS ?= -n auto --maxprocesses 4 --dist worksteal
# How much of 100,000 damaged inputs and 300 kills `test-attack` runs, and the seed of both.
ATTACK_SHARE ?= 0.1
ATTACK_SEED ?= 1
# The trainers' own environments, about 2 GB each.
PEERS ?= .peers

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# The tests read tokens back with Megatron's own reader. Its declared dependencies are GPU training's;
# reading an index needs only torch (in the dev extra), numpy and packaging.
MEGATRON := megatron-core==0.16.1
# And Criteo batches with torchrec's own class, on the CPU: it declares the CUDA build of its kernels.
# These kernels have wheels for Linux alone; elsewhere the tests that need them say that they are absent.
TORCHREC := $(if $(filter Linux,$(shell uname -s)),torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0)

# Where nothing may be cached, the tests are compiled anew by every process of theirs: some ten seconds each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo bench test test-more test-long test-attack test-peers studio review-picture lake-picture ui-pictures lint format types imports check protos graph clean
.DELETE_ON_ERROR:

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed 's/:.*##/\t/' | expand -t 16

demo: $(VENV)/.core.stamp ## the main job on every data set of examples/, offline; output in demo/
	$(BIN)/python examples/run_demo.py

test: $(VENV)/.test.stamp ## the test suite: some minutes on two cores
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-more: $(VENV)/.dev.stamp ## what CI runs besides: torch, Ray, tables, browsers, peers, stores, kills
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "more and not long and not attack"

test-long: $(VENV)/.dev.stamp ## big inputs, long comparisons, all cases of each kind, all examples of properties
	$(BIN)/python -m pytest --all-examples -m "(long or hypothesis) and not attack"

test-attack: $(VENV)/.dev.stamp ## damaged inputs and kills: a tenth; ATTACK_SHARE=1 for all, ATTACK_SEED=n
	ATTACK_SHARE=$(ATTACK_SHARE) ATTACK_SEED=$(ATTACK_SEED) $(BIN)/python -m pytest -n 2 -rP -m attack

test-peers: $(VENV)/.dev.stamp ## exports read by the trainers themselves, in environments under PEERS
	INGOT_PEERS=$(abspath $(PEERS)) $(BIN)/python -m pytest -m long tests/converters/export/test_peers.py

bench: $(VENV)/.dev.stamp ## speed beside peers (docs/performance.md): about an hour; BENCH_ARGS=--quick for a tenth
	PYTHONDONTWRITEBYTECODE= $(BIN)/python benchmarks/run.py $(BENCH_ARGS)

studio: $(VENV)/.dev.stamp ## serve the graph for Studio and agent-chat-ui (docs/studio.md)
	LANGGRAPH_CLI_NO_ANALYTICS=1 $(BIN)/langgraph dev --no-browser

lint: $(VENV)/.dev.stamp ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev.stamp ## rewrite the code as `make lint` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev.stamp ## mypy --strict on the package
	$(BIN)/mypy -p ingot

imports: $(VENV)/.dev.stamp ## the direction of imports
	$(BIN)/lint-imports

check: lint types imports test ## what has to pass before a commit

protos: $(VENV)/.dev.stamp ## generate schemas/monolith/*_pb2.py of the .proto files beside them
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. ingot/schemas/monolith/*.proto

graph: $(VENV)/.dev.stamp ## write the graph of a run into docs/architecture.md
	$(BIN)/python docs/img/graph.py docs/architecture.md

review-picture: $(VENV)/.dev.stamp ## the picture in docs/review.md; needs Chromium
	$(BIN)/python docs/img/review_comment.py

lake-picture: $(VENV)/.dev.stamp ## the pictures in docs/lake.md; needs Chromium
	$(BIN)/python docs/img/lake_page.py

ui-pictures: $(VENV)/.dev.stamp ## the pictures in docs/ui.md; needs Chromium
	INGOT_PICTURES=1 $(BIN)/python -m pytest tests/ui/test_pictures.py

clean: ## remove environment, caches and outputs
	find . -name '*.nb[ic]' -not -path './$(VENV)/*' -delete
	rm -rf $(VENV) demo build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# --upgrade-deps: the pip that Python 3.11 brings needs over ten minutes to resolve the extras, today's one.
$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "ingot needs Python 3.11 or later with venv; say which: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv --upgrade-deps $(VENV)

$(VENV)/.core.stamp: pyproject.toml | $(VENV)/bin/python
	@echo "installing ingot into $(VENV): about a minute the first time"
	$(PIP) install --editable ".[delta]"
	@touch $@

# Without torch, Ray, table formats and browsers: a minute or two instead of eight.
$(VENV)/.test.stamp: pyproject.toml Makefile | $(VENV)/bin/python
	@echo "installing ingot and what its tests need into $(VENV): a minute or two the first time"
	$(PIP) install --editable ".[test]"
	@touch $@

$(VENV)/.dev.stamp: pyproject.toml Makefile | $(VENV)/bin/python
	@echo "installing ingot, its extras and the test tools into $(VENV): a few minutes the first time"
	$(PIP) install --editable ".[all,dev]"
	$(PIP) install --no-deps "$(MEGATRON)" $(TORCHREC)
	@touch $@ $(VENV)/.test.stamp $(VENV)/.core.stamp
