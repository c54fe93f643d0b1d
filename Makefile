# `make run` is all it takes: what is missing is installed first.
# RUST picks the toolchain, and for the kernel its target as well.
RUST := scripts/rust.sh
export CARGO_TARGET_DIR ?= $(CURDIR)/target
SEQUENCES ?= 1000000

help:     ## this list
	@sed -n 's/^\([a-z-]*:\).*## /  make \1 /p' Makefile | sed 's/:/\t/' | expand -t 18

run:      image command ## boot the kernel in QEMU; make run ARGS="--page-size 64k"
	"$(CARGO_TARGET_DIR)/release/linmap" boot $(ARGS)

test:     image fixed command bare-metal ## all tests, those that boot the kernel included; make test ONLY="library docs"
	$(RUST) scripts/test.sh $(ONLY)

test-linux: setup ## the tables of Debian's kernels under QEMU, read in every way; wants the network once
	$(RUST) scripts/test-linux.sh $(ARGS)

# Only counts boot the image: the parts on the host do without.
bench:    $(if $(filter-out counts,$(firstword $(ARGS))),setup,image fixed command) ## all benchmarks, written to docs/benchmarks; make bench ARGS=--help lists the parts
	$(RUST) cargo run --release -p bench -- $(ARGS)

fixed:    setup ## the kernel for one page size each: target/fixed/fixed-4k.img and its siblings
	$(RUST) scripts/fixed.sh

sizes:    image fixed command ## what those take beside the one for all
	$(RUST) cargo run --quiet --release -p bench -- counts --sizes

counts:   image command ## exact counts beside those stored: 2% more fails; make counts ARGS=--update stores them
	$(RUST) cargo run --quiet --release -p bench -- counts $(ARGS)

figures:  image command ## figures in README.md beside what is measured; ARGS=--update writes them
	$(RUST) cargo run --quiet --release -p bench -- figures $(ARGS)

soak:     image command ## many more random sequences than the tests try, on the model and the image; SEQUENCES=1000000
	LINMAP_SEQUENCES=$(SEQUENCES) LINMAP_NAIVE_CASES=$(SEQUENCES) $(RUST) cargo test -p linmap-model --no-fail-fast --test live --test naive
	scripts/soak.sh $(SEQUENCES)

lint:     ## formatting, clippy, rustdoc, scripts, licences
	scripts/setup.sh --lint
	$(RUST) scripts/lint.sh

image:    setup ## the bootable kernel: target/linmap.img
	$(RUST) --kernel cargo build -p kernel --bin kernel --profile image
	$(RUST) cargo run --quiet -p flatten -- "$(CARGO_TARGET_DIR)/$$(scripts/kernel-target.sh)/image/kernel" "$(CARGO_TARGET_DIR)/linmap.img"

bare-metal: setup ## examples/bare-metal, a kernel in 150 lines: target/bare-metal.elf
	scripts/bare-metal.sh

command:  setup ## the linmap command: target/release/linmap
	$(RUST) cargo build --release -p linmap-cli

setup:    ## install what is missing, and only that
	@scripts/setup.sh

clean:    ## remove everything that was built
	$(RUST) cargo clean

.PHONY: help run test test-linux bench counts figures soak sizes lint image fixed command bare-metal setup clean
