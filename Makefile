# The two commands of a newcomer are `make demo` and `make test`; the others are steps of them or for developers.
#
#   PYTHON=python3.12   interpreter to build the environment from (3.10 to 3.13)
#   DISTRO=kilted       ROS 2 wheels to use (jazzy is the default); a sourced installation is used as it is
#   TAKES=1770          training takes of `make train-embedded`

PYTHON ?= python3
DISTRO ?=
ARGS ?=
TAKES ?= 1770

SHELL := /bin/bash
RUN := DISTRO=$(DISTRO) scripts/ros_run
# Demo and tests keep to this machine, whatever else is on the network.
LOCAL_RUN := ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST $(RUN)

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-live test lint bench docs-check config train-embedded clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## virtual environment, ROS 2, built workspace; does nothing where nothing changed
	@$(PYTHON) scripts/setup_env.py --distro "$(DISTRO)"

demo: setup ## play recorded rollouts through the real stack and watch them live
	@$(LOCAL_RUN) rollout-monitor demo $(ARGS)

demo-live: setup ## the same, simulated in the place of the recordings
	@$(LOCAL_RUN) sh -c 'scripts/install_sim.sh "$$VIRTUAL_ENV"'
	@$(LOCAL_RUN) rollout-monitor demo --live $(ARGS)

lint: setup ## ruff, mypy, hadolint
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy
	@$(RUN) mypy --config-file ros2_ws/src/rollout_monitor_nodes/mypy.ini
	@$(RUN) sh -c 'command -v hadolint >/dev/null || { echo "hadolint is not there: Dockerfile not linted"; exit 0; }; hadolint Dockerfile'

test: lint ## everything: lint, types, unit tests and real nodes in separate processes
	@$(LOCAL_RUN) python -m pytest $(ARGS)

bench: setup ## measure, print, judge nothing
	@set -e; for file in bench/bench_*.py; do $(LOCAL_RUN) python $$file $(ARGS); done

docs-check: setup ## the generated pages are those of the code
	@$(RUN) python -m pytest -q tests/docs $(ARGS)

config: setup ## write config/monitor.yaml and docs/nodes again from the nodes' settings
	@$(RUN) python scripts/write_config.py
	@$(RUN) python scripts/generate_node_docs.py

train-embedded: setup ## simulate takes, train models/table on them, export it (extras [sim], [train]; hours)
	@$(RUN) sh -c 'scripts/install_sim.sh "$$VIRTUAL_ENV"'
	@$(RUN) python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[train]'
	@$(RUN) rollout-monitor sim generate --out data/sim --plan train --rollouts $(TAKES) --jobs 2
	@$(RUN) rollout-monitor sim generate --out data/sim --plan val --rollouts 40 --jobs 2
	@$(RUN) python -m rollout_monitor.train --data data/sim --work data/train --out models/table --takes $(TAKES) --jobs 2 $(ARGS)

clean: ## remove what setup built, recordings and reports stay
	rm -rf .venv .venv-* .venv*.lock ros2_ws/build ros2_ws/install ros2_ws/log .mypy_cache .ruff_cache .pytest_cache .hypothesis
