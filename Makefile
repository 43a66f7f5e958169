# `make demo` and `make test` need python3 and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint format bench docs chromium clean

demo: $(STAMP)
	$(BIN)/svidag demo

test: lint chromium
	$(BIN)/pytest -n auto

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python benchmarks/exact.py
	$(BIN)/python benchmarks/published.py

# The report is tested in a real browser. Where there is none and none can be had, its tests fail
# and say so; the others still run.
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

chromium:
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
	|| { $(SUDO) apt-get -q update && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qy install chromium; } \
	|| echo "No Chromium: install it by hand, or the tests of the report will fail." >&2

docs: $(STAMP)
	$(BIN)/mkdocs build

clean:
	rm -rf $(VENV)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
