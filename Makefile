# `make demo`, `make check` and `make test` need python3 and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo check test quick everything recompile lint style types format bench soak load docs chromium clean

# What a fit needs and no more.
demo: $(VENV)/.fit
	$(BIN)/svidag demo
	@echo
	@echo "Now a table of your own:  $(BIN)/svidag fit table.csv -o run  and  $(BIN)/svidag report run"
	@echo "To type 'svidag' alone:   source $(BIN)/activate"

# The processes of the tests, and those that they start, share what Python compiles.
unexport PYTHONDONTWRITEBYTECODE

# Under two minutes on two cores: style, types, layers, and the tests that are not marked slow.
check: style recompile
	@$(MAKE) --no-print-directory -j 2 types quick

# Under 15 minutes on two cores: everything.
test: style recompile chromium
	@$(MAKE) --no-print-directory -j 2 types everything

# Both run beside `types`, which takes one core for half a minute.
quick: $(VENV)/.dev
	$(BIN)/pytest -n auto -q -m 'not slow' tests/laws tests/unit

everything: $(VENV)/.dev
	$(BIN)/pytest -n auto --durations=25

# numba keeps compiled functions beside their source and notices changes of that one file only, not
# of another that it calls: what is older than the newest source goes.
recompile:
	@find src -name '*.nb[ic]' ! -newer "$$(ls -t $$(find src -name '*.py') | head -n 1)" -delete

lint: style types

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/pyright

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/exact.py
	$(BIN)/python benchmarks/published.py

# Random inputs, fits and faults for so many minutes, on one core; the figures go to
# results/reliability. SEED chooses other cases.
MINUTES ?= 10
SEED ?= 0

soak: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m soak --minutes $(MINUTES) --seed $(SEED) --write

# Ten fits at once.
load: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m soak.load --write

# The report is tested in a real browser. Where there is none and none can be had, its tests fail
# and say so; the others still run.
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

chromium:
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
	|| { $(SUDO) apt-get -q update && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qy install chromium; } \
	|| echo "No Chromium: install it by hand, or the tests of the report will fail." >&2

docs: $(VENV)/.dev
	$(BIN)/mkdocs build

clean:
	rm -rf $(VENV) .cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.fit: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/.fit
