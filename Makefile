# Each target does all of its own set-up, in a virtual environment inside the checkout.
#   make demo    the main job, from nothing          make test    lint, tests and doctests, from nothing
#   make quick   lint, one test per promise          make slow    the tests that take minutes
#   make browser Chromium for the tests of reports   make bench   the speed table
#   make compare every method on every benchmark     make reproduce DATA=dir   Table 1 of the paper, on files you bring
#   make docs    the site, into docs/_build/html     make gpu     what a GPU does, as a table
#   make test-torch    the tests that need torch, in an environment of their own (up to 8 GB with the GPU build)
#   make portable      the delicate tests under other kernels of linear algebra
#   make test-oldest   the tests with the oldest versions that pyproject.toml allows
#   make pictures      the pictures in README and documentation, those of reports with Chromium
#   make dist    wheel and sdist, checked, and the README in a fresh environment
#   make bench-scale   fits larger than memory: 5 and 50 million instances, half an hour, 4 GB of disk
PYTHON ?= python3
LIGHT  := .venv-demo
FULL   := .venv
OLDEST := .venv-oldest
TORCH  := .venv-torch
PIP     = -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: pictures demo test test-torch test-oldest portable quick lint browser slow bench bench-scale gpu compare reproduce docs dist clean

demo: $(LIGHT)/.ready
	$(LIGHT)/bin/bagwise demo --out demo

# Two test processes on two cores: threads inside them would only fight over the cores.
# Each begins with one half of the tests, so that few files, and what they set up once, are split between the two.
# Compiled files are kept: every process that a test starts would compile the sources again.
RUN     = -m pytest -n 2 --dist worksteal
TESTS   = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(FULL)/bin/python $(RUN)

test: lint browser
	$(TESTS)

# Only the files with marked tests are collected; the others need libraries that this environment does not hold.
test-torch: $(TORCH)/.ready
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(TORCH)/bin/python $(RUN) -m 'torch and not slow' \
	  $$(grep -rl --include='test_*.py' 'mark\.torch' tests) src/bagwise/instances/networks

# The inner loop, for while you work: the parts of the main path, every promise of an estimator on one method,
# evaluating, saving, the command line, and what the README shows.
QUICK   = tests/bags/test_container.py tests/io/test_tables.py tests/embeddings/test_feature_mean.py \
          tests/regressors/test_ridge_path.py tests/methods/test_contracts.py tests/evaluation/test_evaluation.py \
          tests/model_files/test_round_trip.py tests/cli/test_demo.py tests/test_readme.py

quick: lint
	$(TESTS) $(QUICK) -k 'not (test_contracts or test_every_preset) or aggregated'

# As on other CPUs: OpenBLAS rounds in another way on each.
portable: $(FULL)/.ready
	$(FULL)/bin/python tests/portable.py

# With PYTHON=python3.11 where python3 is a newer one. What is pinned is said elsewhere, so that test is left out.
test-oldest: $(OLDEST)/.ready
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n 2 --ignore tests/security/test_dependencies.py

lint: $(FULL)/.ready
	$(FULL)/bin/ruff check .
	$(FULL)/bin/ruff format --check .
	$(FULL)/bin/lint-imports --no-cache --no-logo
	$(FULL)/bin/mypy

# Not an error where it may not or cannot: the tests that need a browser are then skipped.
browser:
	@tests/reports/install_browser.sh

slow: $(FULL)/.ready browser
	$(TESTS) -m slow

bench: $(FULL)/.ready
	$(FULL)/bin/python benchmarks/speed.py --json bench.json

gpu: $(FULL)/.ready
	$(FULL)/bin/python benchmarks/gpu.py

bench-scale: $(FULL)/.ready
	$(FULL)/bin/python benchmarks/scale.py --millions 5 50 $(if $(DATA),--data $(DATA)) --json bench-scale.json

compare: $(FULL)/.ready
	$(FULL)/bin/python benchmarks/compare.py

reproduce: $(FULL)/.ready
	$(FULL)/bin/bagwise reproduce $(DATA) --n-jobs -1

# Warnings are errors, and a page left over from an earlier build would be one. The examples run here.
docs: $(FULL)/.ready
	rm -rf docs/_build docs/api docs/gallery
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(FULL)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

pictures: $(FULL)/.ready browser
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(FULL)/bin/python docs/pictures/report_pictures.py
	$(FULL)/bin/python docs/pictures/readme_pictures.py

# Built and checked by tools of their own environment; then every block of the README runs with the wheel in a fresh one.
dist: $(FULL)/.ready
	rm -rf dist .venv-dist
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check build twine
	.venv-dist/bin/python -m build --outdir dist
	.venv-dist/bin/python -m twine check --strict dist/*
	$(FULL)/bin/python -m pytest -m slow tests/test_readme.py

# What `pip install bagwise` brings: no torch, no test tools. A stamp file, so that a broken install is tried again.
$(LIGHT)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/python $(PIP) --editable .
	touch $@

$(FULL)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(FULL)
	$(FULL)/bin/python $(PIP) --editable '.[test,lint]'
	touch $@

$(TORCH)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python $(PIP) --editable '.[test-torch]'
	touch $@

$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt --editable '.[test]'
	touch $@

clean:
	rm -rf $(LIGHT) $(FULL) $(OLDEST) $(TORCH) .venv-dist dist demo runs docs/_build docs/api docs/gallery .pytest_cache .ruff_cache .hypothesis
