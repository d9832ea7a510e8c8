# The one entry point for everyday commands: `make help` lists them. Each installs what it needs first.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test package lint bench gpu-test gpu-bench docs fuzz deps

# Seconds that each fuzz target runs.
FUZZ_SECONDS ?= 60
# Sizes that `make gpu-bench` measures, logarithms to base 2.
SIZES ?= 20,22
# Where `make docs` puts man pages and shell completions.
PACKAGING := target/packaging

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## prove real Sapling circuits through the daemon and verify the proofs with bellman
	@scripts/install-deps build
	@cargo build --bin cuzk-daemon --example sapling
	@cargo run --quiet --example sapling

test: ## run all tests
	@scripts/install-deps build
	@skip=(); \
	if ! scripts/install-deps test; then \
		echo "SKIPPED: the test that needs snarkjs, which is not to be had here" >&2; skip+=(--skip snarkjs_command); fi; \
	if ! scripts/install-deps box; then \
		echo "SKIPPED: the tests of the packages, which need root and Debian's systemd and rpm" >&2; \
		skip+=(--skip under_systemd); fi; \
	cargo test -- "$${skip[@]}"

package: ## the packages for Debian and RPM, with the kernels for all devices; under target/packages
	@scripts/package

lint: ## formatting, clippy on every feature set, documentation links
	@scripts/install-deps build lint
	@cargo fmt --check
	@if scripts/install-deps cuda; then \
		CUZK_CUDA_ARCHITECTURES=90 cargo clippy --quiet --all-targets --features cuda,fault-injection -- -D warnings && \
		cargo clippy --quiet --lib --bins -- -D warnings; else \
		echo "SKIPPED: compiling the CUDA kernels and what drives them; there is no CUDA toolkit to be had here" >&2; \
		cargo clippy --quiet --all-targets -- -D warnings; fi
	@for features in client prover client,bellman; do \
		cargo clippy --quiet --lib --no-default-features --features "$$features" -- -D warnings; done
	@RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps

bench: ## benchmarks; docs/measurements.md says how to read them
	@scripts/install-deps build
	@cargo bench --benches

gpu-test: ## the kernels, the prover and the daemon on this machine's NVIDIA device; fails where there is none
	@scripts/gpu-bundle
	@target/gpu-bundle/run test
	@target/gpu-bundle/run daemon

gpu-bench: ## each step's time on this machine's NVIDIA device, its floor and the fastest peer's, at SIZES (20,22)
	@scripts/gpu-bundle
	@target/gpu-bundle/run bench --sizes $(SIZES)

docs: ## man pages, shell completions and the library's documentation, under target/
	@scripts/install-deps build
	@cargo build --quiet --bin cuzk
	@target/debug/cuzk generate man $(PACKAGING)/man
	@mkdir -p $(PACKAGING)/completions
	@target/debug/cuzk generate completions bash >$(PACKAGING)/completions/cuzk
	@target/debug/cuzk generate completions zsh >$(PACKAGING)/completions/_cuzk
	@target/debug/cuzk generate completions fish >$(PACKAGING)/completions/cuzk.fish
	@cargo doc --quiet --no-deps
	@echo "man pages and completions: $(PACKAGING); library: target/doc/cuzk/index.html"

fuzz: ## run each fuzz target for FUZZ_SECONDS (60)
	@scripts/install-deps build fuzz
	@cargo run --quiet --manifest-path fuzz/Cargo.toml --example seeds -- fuzz/corpus
	@targets=$$(cargo +nightly fuzz list); for target in $$targets; do \
		mkdir -p "fuzz/corpus/$$target"; \
		cargo +nightly fuzz run "$$target" "fuzz/corpus/$$target" tests/fixtures/circom -- \
			-max_total_time=$(FUZZ_SECONDS) -max_len=2097152 || exit 1; done

deps: ## install what all of the above need
	@scripts/install-deps build test box lint
