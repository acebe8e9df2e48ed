# Requires Python >= 3.11, pip and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One process per core with one torch thread each; several processes with many threads slow each other down.
WORKERS ?= 2

.PHONY: setup demo figures test robustness test-oldest style lint docs benchmarks clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is required: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@echo "Installing (about 5 GB with PyTorch, once) ..."
	@# The build backend warns that an editable install follows the folders, as intended.
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/autotransfer demo --out demo_results

# Draw all figures and tables of a finished experiment; nothing is trained.
RESULTS ?= demo_results
figures: setup
	$(BIN)/python paper_figures/plot_all.py --results $(RESULTS)

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint: style
	$(BIN)/python tests/project/validate_docstrings.py

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
test: style
	$(PYTEST) --ignore tests/docs --ignore tests/journeys

# Bad input generated from the declared tables; the number of cases is printed.
robustness: setup
	ROBUSTNESS_CASES=60 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -s tests/robustness/test_generated.py

# The four journeys and a few tests with the oldest versions that pyproject.toml allows, in an environment of its own.
test-oldest: setup
	$(PYTHON) -m venv $(VENV)-oldest
	$(BIN)/python tests/project/oldest_versions.py > $(VENV)-oldest/oldest.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint $(VENV)-oldest/oldest.txt --editable '.[search,cluster,test]'
	OMP_NUM_THREADS=1 $(VENV)-oldest/bin/python -m pytest tests/journeys tests/project/test_readme.py \
		tests/paper/test_optuna.py tests/penalties/test_closed_form.py tests/penalties/test_common.py

# Build the pages without network and without warnings, then run what they show: examples, code blocks, commands, the layout
# in a browser, and the four journeys through README. The gallery draws only the figures of examples that changed.
docs: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(PYTEST) tests/docs tests/journeys
	@echo "Open docs/_build/html/index.html"

benchmarks: setup
	for name in encoder fit penalties front fleet; do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

clean:
	rm -rf $(VENV) $(VENV)-oldest docs/_build docs/gallery docs/generated build dist *.egg-info .pytest_cache .ruff_cache
