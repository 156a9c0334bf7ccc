# From nothing but python3 and make. PYTHON chooses the interpreter: make bench PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install bench test lint docs packs clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info[:2] <= (3, 13) else "Python 3.11 to 3.13 is needed, this is " + sys.version.split()[0] + "; try make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

bench: install
	$(BIN)/ragen bench --agent random --agent starter --agent oracle --suite core

test: install lint
	$(BIN)/python -m pytest -n 2

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: install
	$(BIN)/python docs/generate.py

packs: install
	$(BIN)/python -m ragen_envs.instances.build --check

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
