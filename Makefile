# Everything is run from here; `make help` lists it. The first target that needs it makes .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
WORKERS ?= 4
N ?= 20
MINUTES ?= 120
# Kept runs of the integrations count if they are of this commit or a later one. To measure all of
# them again, which takes five hours, name a newer commit.
SINCE ?= 58be839ed5ee
# Each worker begins with its own stretch of the files, so that what tests of one file share is made
# once, and takes from the others when it has none left.
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist worksteal --durations=10 --durations-min=1
QUICK  := not slow and not integrations and (not processes or processes(quick=True))
PROTO  := streamlink/transport/_generated
# pytest rewrites the asserts of each test module, and keeps the result beside it as bytecode. With
# none there, one process does it for all workers, which would each do all of it at the same time.
REWRITTEN = [ $(VENV)/.rewritten -nt $(VENV)/.dev ] || \
	{ $(BIN)/pytest -q -n 0 --collect-only >$(VENV)/collected.txt 2>&1; touch $(VENV)/.rewritten; }
DEADLINE = $$(( $$(date +%s) + 60 * $(MINUTES) ))
# FROM=COMMIT: kept runs count if they are of that commit or a later one.
# All commands, whatever the others end with. What would not end by the deadline, the same target does
# later. What repeats its runs comes last: where time is short, it measures all once and repeats less.
MEASURE = worst=0; deadline=$(DEADLINE); for command in $(1); do \
	  set -- $$command --deadline $$deadline $(if $(SMALL),--small) $(if $(FROM),--since $(FROM)); \
	  echo $(BIN)/python -m benchmarks.links "$$@"; \
	  $(BIN)/python -m benchmarks.links "$$@"; status=$$?; \
	  [ $$status -lt 128 ] || exit $$status; \
	  case "$$command" in *'--runs 1') continue;; esac; \
	  [ $$status -le $$worst ] || worst=$$status; \
	done; exit $$worst
FULL   := --full --compress zstd --report benchmarks/results/full.json

# Bytecode is kept whatever the machine's setting: without it each of the many processes that tests
# start, and each worker, compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help venv demo test test-all test-integrations test-stress lint types unit format proto fuzz soak cover bench bench-full bench-links bench-peers profile profile-dp clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(VENV)/.dev ## make .venv with everything a developer needs

demo: $(VENV)/.lean ## install only what users need, move a large NumPy model, print a table
	$(BIN)/python examples/hello_numpy_large/run.py

test: lint ## style, types, and the tests of minutes: all but most real processes and long ones
	@# The types beside the tests, which wait a lot; what it says comes after them, in one piece.
	@$(BIN)/mypy >$(VENV)/types.txt 2>&1 & types=$$!; \
	trap 'kill $$types; exit 130' INT TERM; \
	$(REWRITTEN); echo '$(PYTEST) -m "$(QUICK)"'; $(PYTEST) -m "$(QUICK)"; tests=$$?; \
	wait $$types; checked=$$?; echo $(BIN)/mypy; cat $(VENV)/types.txt; \
	exit $$((tests | checked))

test-all: venv ## the rest of the tests: real processes, long ones, all examples and products
	$(PYTEST) -m "not integrations and (hypothesis or sampled or product or not ($(QUICK)))" --hypothesis-profile=full

test-integrations: venv ## FLARE, Flower and APPFL with and without us (hours; goes on if interrupted); SMALL=1: minutes
	@# First the environments: a test's time limit is not meant for them.
	$(BIN)/python -m benchmarks.integrations.environments
	@# The cases and their table come whatever the tests end with; a failure of either is the status.
	trap 'exit 130' INT TERM; \
	$(BIN)/pytest -q -n 0 -o faulthandler_timeout=0 -m "integrations$(if $(SMALL),(small=True))" tests/integrations; tests=$$?; \
	$(BIN)/python -m benchmarks.integrations $(if $(SMALL),--small,--since $(SINCE)); cases=$$?; \
	[ $$tests -eq 0 ] || exit $$tests; exit $$cases

test-stress: venv ## N=20 runs of each process test beside four busy processes; goes on if interrupted
	$(BIN)/python -m tests.support.stress --runs $(N) --workers $(WORKERS) \
	  --summary benchmarks/results/stress.jsonl $(if $(K),--only "$(K)")

lint: venv ## style and formatting, changing nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: venv ## mypy --strict on package, tests, benchmarks and examples
	$(BIN)/mypy

unit: venv ## the tests of `make test` alone, WORKERS=4 at a time: they wait a lot, and the slowest ten
	$(PYTEST) -m "$(QUICK)"

format: venv ## fix style and formatting
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

proto: venv ## generate the wire code from proto/streamlink.proto
	$(BIN)/python -m grpc_tools.protoc -I$(PROTO)=proto --python_out=. --pyi_out=. $(PROTO)/streamlink.proto

fuzz: venv ## hostile frames, openings and connections: a million into the core, ten thousand into a live server
	$(BIN)/python -m tests.support.fuzz --json benchmarks/results/fuzz.json

soak: venv ## half an hour of rounds with faults, 100 cuts, 1,000 flips, a slow line, the kill matrix
	$(BIN)/python -m benchmarks cuts --json benchmarks/results/cuts.json
	$(BIN)/python -m benchmarks cuts --carrier tcp --json benchmarks/results/cuts-tcp.json
	$(BIN)/python -m benchmarks flips --json benchmarks/results/flips.json
	$(BIN)/python -m benchmarks flips --carrier tcp --json benchmarks/results/flips-tcp.json
	$(BIN)/python -m benchmarks slow --json benchmarks/results/slow.json
	$(BIN)/python -m tests.scenarios.kills --json benchmarks/results/kills.json
	$(BIN)/python -m tests.scenarios.kills --carrier tcp --json benchmarks/results/kills-tcp.json
	$(BIN)/python -m benchmarks soak --json benchmarks/results/soak.json

# Their own tests only: others start threads, which Python 3.11 cannot trace without a race.
cover: venv ## branch coverage of protocol, model and encodings by their own tests; below 100 % fails
	$(PYTEST) -m "not processes" --hypothesis-profile=full --cov --cov-report=term-missing \
	  tests/protocol tests/model tests/encodings tests/test_extent.py tests/scenarios/protocol

bench: $(VENV)/.bench ## the benchmarks, as tables
	$(BIN)/python -m benchmarks

bench-full: $(VENV)/.lean ## the 128 GB job: 64 keys of 2 GB, two clients, three rounds (half an hour)
	$(BIN)/python examples/hello_numpy_large/run.py $(FULL)

bench-links: $(VENV)/.links ## lines, large models, two sites, the numbers to reach, and the page; SMALL=1: minutes
	@# All once before anything is repeated: the deadline may come first.
	@$(call MEASURE,sites probe bwlimit traverse auto 'links --large --runs 1' 'links --runs 1' finetune 'links --large' links numbers)

bench-peers: $(VENV)/.bench ## the same models by gRPC, Flight, rsync, FLARE, Flower and APPFL; SMALL=1: minutes
	@# NVFLARE: a clone of their repository, for their own benchmarks.
	@$(call MEASURE,$(if $(NVFLARE),'theirs --nvflare $(NVFLARE)') shipped peers numbers)

profile: $(VENV)/.heap ## where memory goes: ResNet18, two clients, both versions under memray, and the page
	$(BIN)/streamlink profile resnet --rounds 2 --output-dir results

profile-dp: $(VENV)/.dp ## what privacy costs: a small series of private training, and its page
	$(BIN)/streamlink profile dp --seq-length 256,512 --batch-size 1 --output results

clean: ## remove .venv, caches and build outputs
	rm -rf $(VENV) build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find streamlink tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment: one .venv, a stamp for each set of packages ------------

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "streamlink needs Python 3.11 or newer, but '$(PYTHON)' is:" \
	    "$$($(PYTHON) --version 2>&1 || true)" >&2; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.lean: pyproject.toml | $(VENV)/.created
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.created
	$(PIP) --editable '.[dev]'
	@touch $(VENV)/.lean $@

$(VENV)/.dp: pyproject.toml | $(VENV)/.created
	$(PIP) --editable '.[dp]'
	@touch $(VENV)/.lean $@

$(VENV)/.heap: pyproject.toml | $(VENV)/.created
	$(PIP) --editable '.[memray,mpi,plot,torch]'
	@touch $(VENV)/.lean $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.created
	$(PIP) --editable '.[bench]'
	@touch $(VENV)/.lean $@

$(VENV)/.links: pyproject.toml | $(VENV)/.created
	$(PIP) --editable '.[bench,torch]'
	@touch $(VENV)/.lean $(VENV)/.bench $@
