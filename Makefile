.DEFAULT_GOAL := help
PYTHON_VENV := .venv/bin/python
PYTHON_RELAY := .venv-relay/bin/python
BENCHMARKS := $(filter-out harness networks relay_efficientnet_models tuner_layers tuner_autotvm __init__,$(basename $(notdir $(wildcard benchmarks/*.py))))

.PHONY: help setup setup-benchmarks demo test golden check format lint types regen bench bench-quick sample clean

help: ## List these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## Make .venv with everything a developer needs
	@bash -euc 'source scripts/lib.sh; install_project relax test dev'

setup-benchmarks: setup ## Add the weights, photographs and runtimes that benchmarks read
	@bash -euc 'source scripts/lib.sh; install_project relax test dev benchmarks; VENV=$$RELAY_VENV install_project relay test'

demo: ## Compile, run and profile the Fashion-MNIST network
	@./scripts/demo

test: ## Run the tests (ARGS="-k conv" goes to pytest)
	@./scripts/test $(ARGS)

golden: ## Rewrite the tests' golden files
	@./scripts/test --update-golden

check: ## Run everything CI runs
	@./.ci/run

format: setup ## Format the code and apply safe lint fixes
	@$(PYTHON_VENV) -m ruff format . && $(PYTHON_VENV) -m ruff check --fix .

lint: setup ## Run the linter
	@$(PYTHON_VENV) -m ruff check .

types: setup ## Run the type checker
	@$(PYTHON_VENV) -m mypy

regen: setup ## Write every generated file
	@$(PYTHON_VENV) -m scripts.regen

bench: setup-benchmarks ## Run all benchmarks and record their results
	@for name in $(BENCHMARKS); do $(PYTHON_VENV) -m benchmarks.$$name || exit 1; done
	@$(PYTHON_RELAY) -m benchmarks.tuner_autotvm
	@$(PYTHON_VENV) -m scripts.regen

bench-quick: setup-benchmarks ## Run all benchmarks, reduced; record nothing
	@for name in $(BENCHMARKS); do $(PYTHON_VENV) -m benchmarks.$$name --quick || exit 1; done
	@$(PYTHON_RELAY) -m benchmarks.tuner_autotvm --quick

sample: setup ## Make the Fashion-MNIST sample from Debian's dataset-fashion-mnist
	@$(PYTHON_VENV) -m scripts.make_fashion_mnist_sample

clean: ## Remove build products and caches, keep .venv
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
