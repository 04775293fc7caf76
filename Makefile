# Every target sets up what it needs in .venv: `make demo` what the demo needs, the others all of it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := $(VENV)/.ready-demo
MODELS := $(VENV)/.ready-models
BROWSER := $(VENV)/.ready-browser
SITE   := $(VENV)/.ready-site
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
WORKERS ?= 2
# One thread of linear algebra for each worker: more of them only wait for each other.
export OPENBLAS_NUM_THREADS ?= 1
# A real Ray with several machines on this one, in a network namespace of its own: its tests start
# and kill processes, one test after the other.
INSIDE := $(BIN)/python tests/cluster/inside.py
# What has a target of its own.
APART := --ignore=tests/cluster --ignore=tests/browser --ignore=tests/site

.PHONY: demo test test-here test-on-ray test-fast test-all all-here test-models test-cluster test-browser screenshots docs pages \
  coverage chaos lint types layers check bench bench-cluster format clean

demo: $(DEMO)
	$(BIN)/bequest demo

# The tests on a real Ray mostly wait for processes: they run beside the others, which are `nice` to
# them.
test: check
	$(MAKE) -j 2 test-here test-on-ray

test-here: $(READY)
	nice $(BIN)/pytest -n $(WORKERS) -m "not slow" $(APART)

test-on-ray: $(READY)
	$(INSIDE) $(BIN)/pytest -m "not slow" tests/cluster

# The inner loop: mathematics, model and protocol, without processes, files and clusters. If it takes
# longer than two minutes on two cores, the tests at the end of its output are for other folders.
test-fast: $(READY)
	$(BIN)/pytest -n $(WORKERS) -m "not slow" --durations=5 --durations-min=3 \
	  tests/core tests/model tests/protocol

test-all: check
	$(MAKE) -j 2 all-here test-cluster

all-here: $(READY)
	nice $(BIN)/pytest -n $(WORKERS) $(APART)

# Models of torch and JAX, and as ONNX, which no other target needs; they are installed beside the rest.
test-models: $(MODELS)
	$(BIN)/pytest -n $(WORKERS) -m "not slow" tests/frameworks
	$(INSIDE) $(BIN)/pytest -m "not slow" tests/cluster/frameworks

test-cluster: $(READY)
	$(INSIDE) $(BIN)/pytest tests/cluster

# The page of `bequest view` in a real Chromium. Where that cannot be installed it says so, and that
# nothing was tested.
test-browser: $(BROWSER)
	@tests/browser/install.sh; code=$$?; \
	if [ $$code = 3 ]; then exit 0; elif [ $$code != 0 ]; then exit $$code; fi; \
	$(BIN)/pytest tests/browser

# Its main states as pictures in out/screenshots, to be looked at.
screenshots: $(BROWSER)
	tests/browser/install.sh
	$(BIN)/python tests/browser/screenshots.py

# The site, in out/site: strictly (a warning is an error), and without a network.
docs: $(SITE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/pytest -q tests/site
	@echo "out/site/index.html; to search it: $(BIN)/python -m http.server -b 127.0.0.1 -d out/site"

# The pages of docs/ that follow from the source.
pages: $(READY)
	$(BIN)/python tools/generated_pages.py

# Every branch of the mathematics and of the protocol is taken by some test that is quick to run.
coverage: $(READY)
	$(BIN)/pytest -n $(WORKERS) -m "not slow" --cov=bequest.core --cov=bequest.protocol --cov-branch \
	  --cov-report=term-missing --cov-fail-under=100 \
	  tests/core tests/model tests/protocol tests/simulation tests/parity

# Bad days for the protocol, a seed each: `make chaos SEEDS=50000` takes well under an hour.
SEEDS ?= 10000
FIRST ?= 0
chaos: $(READY)
	$(BIN)/python tests/simulation/chaos.py --seeds $(SEEDS) --first $(FIRST) --workers $(WORKERS)

check: lint types layers

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python benchmarks/rounds.py
	$(BIN)/python benchmarks/wire.py

bench-cluster: $(READY)
	$(INSIDE) $(BIN)/python benchmarks/cluster.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(DEMO): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[data,plot]"
	touch $(DEMO)

# Whatever the demo needs is among it.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[dev]"
	touch $(DEMO) $(READY)

$(MODELS): $(READY) constraints-models.txt
	$(PIP) -r constraints-models.txt
	touch $(MODELS)
$(SITE): $(READY)
	$(PIP) -e ".[dev,docs]"
	touch $(SITE)

$(BROWSER): $(READY)
	$(PIP) -e ".[dev,browser]"
	touch $(BROWSER)

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
