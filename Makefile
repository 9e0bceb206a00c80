# The two commands are `make demo` and `make test`; both do all the set-up they need and leave nothing running.

.PHONY: help demo test lint fuzz libfuzzer bench

help:
	@echo 'make demo   simulate a night, archive it, replay it with one and several workers and through Kafka, and compare'
	@echo 'make test   run every test, against a private Postgres and a real Kafka broker where one can be had'
	@echo 'make lint   formatter, clippy with warnings denied, documentation, dependency licences'
	@echo 'make fuzz   60 s of each fuzz target over damaged packets (SECONDS=N for another time)'
	@echo 'make libfuzzer  the same targets under libFuzzer (needs cargo-fuzz), 60 s of each'
	@echo 'make bench  benchmarks, each beside its bound and its rivals in one run (long)'

demo:
	@bash .ci/setup build postgres
	@echo 'demo: building the release binary (several minutes the first time)'
	cargo build --release --locked --quiet
	./target/release/alertstream demo

test:
	@bash .ci/test

lint:
	@bash .ci/lint

SECONDS ?= 60
fuzz:
	@bash .ci/setup build
	cargo run --locked --quiet --example fuzz_smoke -- --seconds $(SECONDS)

# Coverage-guided; see fuzz/README.md.
libfuzzer:
	@bash .ci/setup build
	@command -v cargo-fuzz >/dev/null || { echo 'libfuzzer: please install cargo-fuzz: cargo install cargo-fuzz'; exit 1; }
	cargo run --locked --quiet --example fuzz_smoke -- --seeds fuzz/corpus
	cd fuzz && for target in framing datum schema differential; do \
	    RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir . -s none $$target -- -max_total_time=$(SECONDS) -timeout=5 -max_len=40000 || exit 1; \
	done

bench:
	@bash .ci/setup build postgres
	@bash .ci/bench
