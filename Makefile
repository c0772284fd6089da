# Common tasks. Each installs what it needs, or names it: scripts/setup.

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
FUZZ_TARGETS := files_decode headers_parse memif_peer recordings share_messages texts vhost_guest
FUZZ_SECONDS ?= 20
SEEDS ?= 10000
MIRI_CASES ?= 4
MIRI_SEEDS ?= 8
TSAN_S ?= 60
TIMES ?= 10

TOOLCHAIN := $(shell scripts/toolchain)
ifneq ($(TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(TOOLCHAIN)
endif

# If libdpdk is installed, the port dpdk: is built and tested, and DPDK is among the rivals.
HAS_DPDK := $(shell pkg-config --exists libdpdk 2>/dev/null && echo yes)
DPDK := $(if $(HAS_DPDK),--features burstline/dpdk --features burstline-lab/dpdk)
LAB_DPDK := $(if $(HAS_DPDK),--features dpdk)

.DEFAULT_GOAL := help
.PHONY: help fresh run billion dpdk dpdk-newer test bench bench-smoke lint seeds loom musl miri tsan fuzz-smoke guest \
  ten guest-cards guest-lab guest-service guest-switch install install-c install-pcap header documents report-check runs setup \
  figures book campaign dist sbom wheel python abi publishable semver deny fleet buses daq programs suricata-alerts

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

run: ## Build the program and run burstline demo
	@scripts/setup rust
	@cargo run --quiet --release --locked -p burstline -- demo

fresh: ## Run README's two commands on a bare Debian, as root: make fresh [WITHOUT="KIND..."|all]
	@scripts/setup fresh
	@scripts/fresh

dpdk: ## Build the program with the port dpdk: (installs libdpdk)
	@scripts/setup rust dpdk
	@cargo build --quiet --release --locked -p burstline --features dpdk

dpdk-newer: ## Compile our C code against the headers of newer DPDKs, from Debian's later suites
	@scripts/newer-dpdk

test: ## Run all tests; in some of them other programs check our files: make test [FLAGS=]
	@scripts/setup rust test
	@scripts/test $(DPDK) $(FLAGS)

ten: ## Run all tests ten times in a row, the first half beside two busy loops: make ten [TIMES=10]
	@scripts/setup rust test
	@scripts/ten $(TIMES) $(DPDK)

# The Python package, for two of the figures. Without Python they are not here: the script ends with code 3.
PYTHON_PACKAGE := scripts/python install || [ $$? -eq 3 ]

bench: ## Measure our figures beside our rivals': make bench [FIGURE=glob] [RUNS=n] [FULL=1: long ones] [OUT=folder]
	@scripts/setup rust
	@cargo build --quiet --release --locked -p burstline $(LAB_DPDK)
	@cargo build --quiet --release --locked -p burstline-pcap
	$(if $(filter-out python%,$(FIGURE)),,@$(PYTHON_PACKAGE))
	@cargo run --quiet --release --locked -p burstline-lab $(LAB_DPDK) --bin bench -- \
	  --out $(or $(OUT),$(TARGET_DIR)/figures) $(if $(FIGURE),'$(FIGURE)') $(if $(RUNS),--runs $(RUNS)) \
	  $(if $(FULL),--full)

BUSES := --features burstline/kafka --features burstline/nats

buses: ## Build the program with clients of Kafka and NATS, and test it with both (installs the servers)
	@scripts/setup rust buses
	@cargo test --quiet --locked -p burstline-fleet --features kafka,nats
	@cargo test --quiet --locked -p burstline $(BUSES) --test flows buses:: -- --test-threads 2
	@cargo build --quiet --release --locked -p burstline $(BUSES)

fleet: ## Check that no record is lost, doubled or changed: sensors, Kafka, NATS, Spark, ClickHouse, DuckDB. As root
	@scripts/setup rust query buses spark chdb
	@cargo build --quiet --release --locked -p burstline $(BUSES)
	@PROGRAM=$(TARGET_DIR)/release/burstline scripts/fleet
	@PROGRAM=$(TARGET_DIR)/release/burstline scripts/fleet-scaling
	@PROGRAM=$(TARGET_DIR)/release/burstline scripts/fleet-clickhouse
	@PROGRAM=$(TARGET_DIR)/release/burstline scripts/fleet-buses

campaign: ## Run the reliability campaigns: make campaign [NAME=glob] [FULL=1: the rounds of a release]
	@scripts/setup rust test fuzz jq
	@cargo build --quiet --release --locked -p burstline $(LAB_DPDK)
	@PROGRAM=$(TARGET_DIR)/release/burstline FULL=$(FULL) scripts/campaign $(if $(NAME),'$(NAME)')

# A folder for each machine: runs/figures, runs/figures-NAME; and one for far cores. Each page with
# marks gets its table.
FIGURE_RUNS := $(sort $(wildcard runs/far runs/figures runs/figures-*))
FIGURE_PAGES = $(shell grep -lxE '<!-- (six )?figures: make figures -->' README.md docs/*.md)
figures: ## Write the tables of figures into their pages, from the records in runs/figures*
	@scripts/setup rust
	@for page in $(FIGURE_PAGES); do \
		cargo run --quiet --locked -p burstline-lab --bin bench -- $(FIGURE_RUNS:%=--table %) --into $$page || exit; done

# Uses the build of make test: figures of a smoke run mean nothing. Only the Python package is a release build.
bench-smoke: ## Check that the benchmarks run, with tiny sizes; the figures mean nothing
	@scripts/setup rust
	@cargo build --quiet --locked --profile test --workspace --all-targets $(DPDK)
	@$(PYTHON_PACKAGE)
	@$(TARGET_DIR)/debug/bench --smoke

lint: ## Check format, clippy, documentation and house rules
	@scripts/setup rust
	@cargo fmt --all --check
	@cargo fmt --manifest-path fuzz/Cargo.toml --check
	@cargo fmt --manifest-path crates/python/Cargo.toml --check
	@cargo clippy --quiet --workspace --all-targets --locked --keep-going $(DPDK) -- -D warnings
	@RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --locked $(DPDK)
	@$(if $(DPDK),cargo clippy --quiet -p burstline -p burstline-lab --locked \
	  -- -D warnings)
	@cargo run --quiet --locked -p xtask -- check

seeds: ## Damage SEEDS recordings (10000), and cut the power while they are made: make seeds [SEEDS=10000]
	@scripts/setup rust
	@BURSTLINE_SEEDS=$(SEEDS) cargo test --quiet --workspace --locked $(DPDK) --test recordings -- seed --nocapture

loom: ## Check every interleaving of the edges of log and card; of larger models those with few preemptions
	@scripts/setup rust
	@RUSTFLAGS="--cfg loom" cargo test --quiet --release --locked -p burstline-log -p burstline-nicsim \
	  --test loom --target-dir $(TARGET_DIR)/loom

musl: ## Test with musl what a confined thread and a helper are refused: its calls differ from glibc's
	@scripts/setup rust musl-target
	@cargo test --quiet --locked --target $(shell uname -m)-unknown-linux-musl -p burstline-sys \
	  --test forbidden --test helper

miri: ## Test the log and the Linux boundary under miri; exit code 3 if it is not available
	@scripts/setup rust
	@MIRI_CASES=$(MIRI_CASES) MIRI_SEEDS=$(MIRI_SEEDS) scripts/miri

tsan: ## Test threads that share memory under ThreadSanitizer for TSAN_S seconds (60); exit code 3 if not available
	@scripts/setup rust
	@scripts/tsan $(TSAN_S)

# One by one the targets would be built on one core.
FUZZ_EACH = fuzz/run --build && for target in $(FUZZ_TARGETS); do fuzz/run $$target $(FUZZ_SECONDS) || exit 1; done
fuzz-smoke: ## Run each fuzz target for FUZZ_SECONDS seconds (20): small inputs, then up to 1 MiB
	@scripts/setup rust fuzz
	@$(FUZZ_EACH)
	@export FUZZ_BYTES=1048576; $(FUZZ_EACH)

guest: ## Check the placement of memory and threads, in an emulated machine with two NUMA nodes
	@scripts/setup rust guest
	@cargo build --quiet --release --locked -p burstline
	@scripts/guest

guest-cards: ## Check that dpdk: drives the cards of an emulated machine (8 minutes)
	@scripts/setup rust guest dpdk
	@cargo build --quiet --release --locked -p burstline --features dpdk
	@cargo build --quiet --release --locked -p burstline-testbed --example wire
	@scripts/guest-dpdk

guest-lab: ## Check that every contender of the lab starts on a freshly booted machine (10 minutes)
	@scripts/setup rust guest dpdk rivals sensors
	@cargo build --quiet --release --locked -p burstline-pcap
	@cargo build --quiet --release --locked -p burstline -p burstline-lab --bin burstline --bin bench \
	  --features burstline/dpdk --features burstline-lab/dpdk
	@scripts/guest-lab

guest-service: dist ## Install the package in a bare Debian with systemd, run the service, remove it (minutes)
	@scripts/setup guest fresh report
	@scripts/guest-service

guest-switch: ## Run two guests on vhost ports of the switch, which is killed meanwhile (a minute)
	@scripts/setup rust guest
	@cargo build --quiet --release --locked -p burstline
	@scripts/guest-switch

# --version shows it. Other targets leave it out, so that cargo builds nothing twice.
COMMIT = BURSTLINE_COMMIT=$(shell git rev-parse --short=12 HEAD 2>/dev/null)

sbom: ## Write the bill of materials of burstline, as CycloneDX, into target/burstline.cdx.json
	@scripts/setup rust jq
	@mkdir -p $(TARGET_DIR)
	@scripts/sbom >$(TARGET_DIR)/burstline.cdx.json

dist: ## Build the release files: a static program, a package for Debian, a tarball, in target/dist
	@scripts/setup rust jq
	@scripts/dist $(TARGET_DIR)/dist

install: ## Install the program burstline into cargo's bin folder
	@scripts/setup rust
	@$(COMMIT) cargo install --quiet --locked --path crates/cli

# The number is BURSTLINE_ABI_VERSION; crates/capi/build.rs puts it into the library.
SONAME := libburstline.so.0
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
MANDIR ?= $(PREFIX)/share/man
EXTCAP ?= $(LIBDIR)/wireshark/extcap
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
CAPI_FEATURES ?=

install-c: ## Install the C library, header, manual page and pkg-config file: make install-c [PREFIX=] [LIBDIR=] [DESTDIR=]
	@scripts/setup rust
	@cargo rustc --quiet --locked -p burstline-capi --lib --profile capi \
	  --crate-type cdylib,staticlib --features '$(CAPI_FEATURES)'
	@install -d '$(DESTDIR)$(PREFIX)/include' '$(DESTDIR)$(LIBDIR)/pkgconfig'
	@install -m 644 include/burstline.h '$(DESTDIR)$(PREFIX)/include/'
	@install -d '$(DESTDIR)$(MANDIR)/man3'
	@install -m 644 include/burstline.3 '$(DESTDIR)$(MANDIR)/man3/'
	@install -m 755 '$(TARGET_DIR)/capi/libburstline.so' '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	@ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libburstline.so'
	@install -m 644 '$(TARGET_DIR)/capi/libburstline.a' '$(DESTDIR)$(LIBDIR)/'
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	  -e 's|@STATIC_LIBS@|-lgcc_s -lpthread -ldl -lm|' \
	  include/burstline.pc.in > '$(DESTDIR)$(LIBDIR)/pkgconfig/burstline.pc'

install-pcap: ## Install the libpcap with devices burst:NAME, and burstline-run: make install-pcap [PREFIX=] [LIBDIR=] [EXTCAP=] [DESTDIR=]
	@scripts/setup rust
	@cargo rustc --quiet --locked -p burstline-pcap --lib --profile capi --crate-type cdylib
	@install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(LIBDIR)/burstline-pcap'
	@install -m 755 '$(TARGET_DIR)/capi/libburstline_pcap.so' '$(DESTDIR)$(LIBDIR)/libburstline-pcap.so'
	@for name in libpcap.so.0.8 libpcap.so.1; do \
	  ln -sf ../libburstline-pcap.so "$(DESTDIR)$(LIBDIR)/burstline-pcap/$$name"; done
	@sed 's|@LIBDIR@|$(LIBDIR)|' crates/pcap/burstline-run.in > '$(DESTDIR)$(PREFIX)/bin/burstline-run'
	@chmod 755 '$(DESTDIR)$(PREFIX)/bin/burstline-run'
	@install -d '$(DESTDIR)$(PREFIX)/include'
	@install -m 644 include/burstline-pcap.h '$(DESTDIR)$(PREFIX)/include/'
	@install -D -m 644 crates/pcap/suricata-in-line.yaml '$(DESTDIR)$(PREFIX)/share/burstline/suricata-in-line.yaml'
	@install -d '$(DESTDIR)$(EXTCAP)'
	@printf '#!/bin/sh\nexec burstline extcap "$$@"\n' > '$(DESTDIR)$(EXTCAP)/burstline'
	@chmod 755 '$(DESTDIR)$(EXTCAP)/burstline'

# The modules look for the library here.
DAQ_OUT := $(abspath $(TARGET_DIR))/daq
daq: ## Build Snort's DAQ modules and the library that they load, in target/daq (installs libdaq-dev)
	@scripts/setup rust daq
	@$(MAKE) --no-print-directory install-c PREFIX='$(DAQ_OUT)/usr'
	@PKG_CONFIG_PATH='$(DAQ_OUT)/usr/lib/pkgconfig' $(MAKE) --no-print-directory -C daq OUT='$(DAQ_OUT)'

# Programs that read packets by the real libpcap and by ours.
programs: ## Measure the programs in the table of docs/sensors.md and runs/programs.json, as root (a quarter of an hour)
	@scripts/setup rust test sensors
	@cargo test --quiet --release --locked -p burstline-pcap --test suite -- --ignored --nocapture measure_programs

SENSORS := $(abspath $(TARGET_DIR))/sensors
suricata-alerts: ## Print Suricata's alerts on a published log, as in runs/suricata.txt. As root
	@scripts/setup rust rivals sensors
	@cargo build --quiet --release --locked -p burstline
	@$(MAKE) --no-print-directory install-pcap PREFIX='$(SENSORS)'
	@PATH="$(abspath $(TARGET_DIR))/release:$(SENSORS)/bin:$$PATH" scripts/suricata-alerts

wheel: ## Build the Python package as a wheel in target/wheels, by maturin in a virtual environment
	@scripts/setup rust python
	@scripts/python wheel

python: ## Build the Python package, install it beside its rivals, and test it: make python [ARGUMENTS=]
	@scripts/setup rust python
	@cargo clippy --quiet --manifest-path crates/python/Cargo.toml --locked -- -D warnings
	@scripts/python test $(ARGUMENTS)

# Cargo keeps the unpacked and built packages of a dry run, and would use them for the next one, which has the same
# version.
publishable: ## Check that the library crates can be published: package each and build it from its package, in order
	@scripts/setup rust
	@rm -rf $(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src/-*/burstline-* \
	  $(TARGET_DIR)/publishable/debug/.fingerprint/burstline-*
	@cargo publish --quiet --workspace --dry-run --locked --allow-dirty --target-dir $(TARGET_DIR)/publishable

semver: ## Check by cargo-semver-checks that the library crates keep what the last release promised
	@scripts/setup rust semver
	@scripts/semver

# Where the database of advisories cannot be reached, all else was checked: code 3.
deny: ## Check licences, sources, advisories and withdrawn versions of all dependencies by cargo-deny
	@scripts/setup rust deny
	@scripts/deny || [ $$? -eq 3 ]

header: ## Write include/burstline.h, from crates/capi
	@scripts/setup rust
	@WRITE_HEADER=1 cargo test --quiet --locked -p burstline-capi --test header

abi: ## At a release: write what include/burstline.h promises into include/burstline.abi
	@scripts/setup rust
	@WRITE_ABI=1 cargo test --quiet --locked -p burstline-capi --test abi

documents: ## Write docs/documents.md, from crates/lab/documents
	@scripts/setup rust
	@WRITE_DOCUMENTS=1 cargo test --quiet --locked -p burstline --test lab -- page_of_the_documents

book: ## Make the documents a book, in target/book/html (compiles mdBook if it is missing)
	@scripts/setup rust book
	@cargo build --quiet --locked -p burstline $(LAB_DPDK)
	@scripts/book $(TARGET_DIR)/debug/burstline $(TARGET_DIR)/book

report-check: ## Check reports of the lab, and the page of --web, in Chromium at two sizes (installs Chromium)
	@scripts/setup rust report
	@cargo test --quiet --locked -p burstline-lab --test report
	@cargo test --quiet --locked -p burstline --test service web_page::

# The rule removes older records, which would otherwise be in the report, too, once there are new ones.
RUN ?= runs/latest
runs: ## Run the quick experiments here, with report and charts: make runs [RUN=runs/latest]; as root
	@scripts/setup rust dpdk rivals
	@cargo build --quiet --release --locked -p burstline $(DPDK)
	@touch '$(TARGET_DIR)/runs-began'
	@$(TARGET_DIR)/release/burstline lab run all --quick --out '$(RUN)'
	@find '$(RUN)' -maxdepth 1 \( -name '*.json' -o -name '*.svg' \) ! -newer '$(TARGET_DIR)/runs-began' -delete
	@$(TARGET_DIR)/release/burstline lab report '$(RUN)' --markdown '$(RUN)/report.md' \
	  --charts '$(RUN)'

billion: ## Bounce and count a billion frames at the highest rate without loss, as root (an hour)
	@scripts/setup rust
	@cargo build --quiet --release --locked -p burstline
	@scripts/billion $(TARGET_DIR)/release/burstline runs/billion

setup: ## Install everything that the targets above need
	@scripts/setup rust test fuzz guest dpdk report
