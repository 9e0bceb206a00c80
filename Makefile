# The two commands are `make demo` and `make test`; both do all the set-up they need and leave nothing running.

.PHONY: help demo test lint fuzz bench

help:
	@echo 'make demo   simulate a night, archive it, replay it with one and several workers and through Kafka, and compare'
	@echo 'make test   run every test, against a private Postgres and a real Kafka broker where one can be had'
	@echo 'make lint   formatter, clippy with warnings denied, documentation, dependency licences'
	@echo 'make fuzz   60 s of each fuzz target over damaged packets (SECONDS=N for another time)'
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

bench:
	@bash .ci/setup build postgres
	cargo bench --locked --bench queue
	cargo bench --locked --bench decode
	cargo run --release --locked --quiet -- simulate --night 2026-03-14 --alerts 1 --to target/bench-packet
	@for packet in target/bench-packet/*; do python3 benches/fastavro.py "$$packet"; done
	cargo bench --locked --bench archive
	cargo bench --locked --bench soak
