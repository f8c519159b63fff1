# The front door. Every target sets up what it needs; CMake and Ninja do the work.
#   make run      answer a question with the shipped checkpoint
#   make test     build with checks and run the tests (all but gpu and slow ones)
#   make build    what users run, in build/release
#   make bench    tokenizer, kernel and model speed on this machine, with the shipped checkpoint
#   make lint     the rules of the house over the source tree, with sizes for each room
#   make tidy     clang-tidy over the sources (slow)
#   make format   clang-format over the sources
#   make fuzz     every fuzz target for FUZZ_SECONDS (600)
#   make clean    remove build/

PROMPT ?= What does courage mean?
FUZZ_SECONDS ?= 600
JOBS ?= $(shell nproc)

SOURCES = $(shell find src -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh')

.PHONY: build run test bench lint tidy format fuzz setup setup-dev clean
.DEFAULT_GOAL := build

setup:
	@scripts/setup.sh

setup-dev:
	@scripts/setup.sh --dev

build/%/build.ninja: CMakePresets.json | setup
	cmake --preset $*
	@touch $@

build: build/release/build.ninja
	cmake --build build/release -j $(JOBS)

run: setup build/release/build.ninja
	@cmake --build build/release -j $(JOBS) --target thalweg -- --quiet
	@build/release/bin/thalweg run --temperature 0 "$(PROMPT)"

# Test programs run side by side; a thread that waits must not take a processor from another test.
test: setup build/dev/build.ninja
	cmake --build build/dev -j $(JOBS)
	ctest --test-dir build/dev --output-on-failure -LE "gpu|slow" -j $(JOBS)

bench: setup build/release/build.ninja
	cmake --build build/release -j $(JOBS)
	build/release/bin/thalweg bench

lint: setup build/dev/build.ninja
	@cmake --build build/dev -j $(JOBS) --target thalweg_lint -- --quiet
	@build/dev/src/tools/lint/thalweg_lint --report .

# Without precompiled headers: here a source that does not include what it uses is found.
tidy: setup-dev build/tidy/build.ninja
	run-clang-tidy-16 -quiet -extra-arg=-Wno-unknown-warning-option -j $(JOBS) -p build/tidy '$(CURDIR)/src/.*\.cc$$'

format: setup-dev
	clang-format -i $(SOURCES)

fuzz: setup-dev build/fuzz/build.ninja
	cmake --build build/fuzz -j $(JOBS) --target fuzzers
	@scripts/fuzz.sh build/fuzz $(FUZZ_SECONDS)

clean:
	rm -rf build
