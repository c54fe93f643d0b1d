# `make run` installs missing programs, builds everything and boots.
# RUST chooses the toolchain, and the target of the kernel.
RUST := dev/scripts/rust.sh
export CARGO_TARGET_DIR ?= $(CURDIR)/target
# Nothing is stored for the next build of the same crate: most builds here are the only one.
export CARGO_INCREMENTAL ?= 0
SEQUENCES ?= 1000000
ORDERS ?= 10

help:     ## print this list
	@sed -n 's/^\([a-z-]*:\).*## /  make \1 /p' Makefile | sed 's/:/\t/' | expand -t 18

run:      image command ## boot the kernel in QEMU; make run ARGS="--page-size 64k"
	"$(CARGO_TARGET_DIR)/release/linmap" boot $(ARGS)

# The kernel and the tests are built side by side; what only some tests need is built beside the others.
test:     ## run all tests, including those that boot the kernel; make test ONLY="host docs"
	dev/scripts/setup.sh --test --c
	$(MAKE) --no-print-directory -j2 built-tests image
	$(RUST) dev/scripts/test.sh $(ONLY)

built-tests: setup
	$(RUST) cargo tests --quiet --tests --test image --test commands --no-run

test-clean: ## try `make run` and `make test` in a new Debian, as root; make test-clean ARGS="13 debian"; ARGS=--help lists the ways
	dev/scripts/test-clean.sh $(ARGS)

test-linux: image ## read the tables of Debian's kernels under QEMU in every way; needs the network once
	$(RUST) dev/scripts/test-linux.sh $(ARGS)

test-judge: image command judge ## judge the image, the examples and Linux in every way, and what is noticed; ARGS=--help lists the parts
	dev/scripts/setup.sh --linux
	$(RUST) dev/scripts/test-judge.sh $(ARGS)

test-linux-port: ## build and boot Linux with its linear map by linmap; ARGS=all also with other page sizes; needs the network once
	dev/scripts/setup.sh --linux
	$(RUST) dev/scripts/test-linux-port.sh $(ARGS)

# Only counts boot the image; the parts on the host need none.
bench:    $(if $(filter-out counts,$(firstword $(ARGS))),setup,image fixed command) ## run all benchmarks and write docs/benchmarks; make bench ARGS=--help lists the parts
	$(RUST) cargo run --release -p bench -- $(ARGS)
	$(if $(ARGS),,$(RUST) cargo test --release -p linmap-cli --test maps -- --ignored --nocapture figures)

fixed:    setup ## build the kernels for one page size: target/fixed/fixed-4k.img, -16k and -64k
	$(RUST) dev/scripts/fixed.sh

sizes:    image fixed command ## compare their size and speed with those of the kernel for all page sizes
	$(RUST) cargo run --quiet --release -p bench -- counts --sizes

counts:   image command ## compare exact counts with the stored ones and with budgets; 2% more fails; make counts ARGS=--update stores them
	$(RUST) cargo run --quiet --release -p bench -- counts $(ARGS)

cycles:   image ## print what llvm-mca says of the library's bulk loops for N1, V2 and AmpereOne; ARGS=MODULE takes those of another module
	dev/scripts/setup.sh --cycles
	$(RUST) cargo run --quiet --release -p bench -- cycles $(ARGS)

figures:  image command ## compare figures in documents with measured ones; ARGS=--update writes them
	dev/scripts/setup.sh --test
	$(RUST) cargo run --quiet --release -p bench -- figures $(ARGS)

docs:     setup ## check all links and build the book: target/book/index.html
	$(RUST) cargo run --quiet -p book --features html -- build "$(CARGO_TARGET_DIR)/book"

judge:    setup ## build the plugins of `linmap judge`: target/judge
	$(RUST) dev/scripts/judge.sh

soak:     image command ## try many more random sequences and orders than the tests, on the model and the image; SEQUENCES=1000000 ORDERS=10
	LINMAP_SEED=fresh LINMAP_SEQUENCES=$(SEQUENCES) LINMAP_NAIVE_CASES=$(SEQUENCES) LINMAP_ORDERS=$(ORDERS) $(RUST) cargo test -p linmap-model --no-fail-fast --test live --test naive --test concurrent
	dev/scripts/soak.sh $(SEQUENCES)

miri:     ## run tests of the library under Miri, which finds what the rules of Rust forbid; needs rustup
	dev/scripts/miri.sh

mutants:  setup ## change the library at one place at a time, and list the changes that no test notices; ARGS="--seed 2"
	nice $(RUST) cargo run --quiet --release -p mutants -- $(ARGS)

oracles:  setup ## show logs of right and wrong changes to casemate and herd7, if they are installed; ARGS=DIRECTORY keeps them
	$(RUST) cargo run --quiet -p linmap-model --example oracles -- $(ARGS)

lint:     ## check formatting, clippy, rustdoc, arrows between files, words, links, scripts, licences
	dev/scripts/setup.sh --lint
	$(RUST) dev/scripts/lint.sh

image:    setup ## build the bootable kernel: target/linmap.img
	$(RUST) --kernel cargo build -p kernel --bin kernel --profile image
	$(RUST) cargo run --quiet -p flatten -- "$(CARGO_TARGET_DIR)/$$(dev/scripts/kernel-target.sh)/image/kernel" "$(CARGO_TARGET_DIR)/linmap.img"

bare-metal: setup ## build examples/bare-metal, the kernel of the bring-up chapter: target/bare-metal.elf
	dev/scripts/bare-metal.sh

c-library: ## build linmap for kernels in C: target/c-library/linmap.o, liblinmap.a and linmap.h
	dev/scripts/setup.sh --c
	dev/scripts/c-library.sh $(ARGS)

command:  setup ## build the linmap command: target/release/linmap
	$(RUST) cargo build --release -p linmap-cli

deb:      setup ## make Debian packages of the command, statically linked, and judge's plugins: target/linmap_VERSION_arm64.deb and _amd64.deb; ARGS=arm64 makes one
	$(RUST) dev/scripts/deb.sh $(ARGS)

setup:    ## install missing programs, and nothing else
	@dev/scripts/setup.sh

clean:    ## remove all builds
	$(RUST) cargo clean

.PHONY: help run test built-tests miri test-clean test-judge test-linux test-linux-port bench counts cycles figures docs soak mutants oracles sizes lint image fixed command bare-metal c-library deb setup clean
