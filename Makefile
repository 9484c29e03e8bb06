# Everything is done by cargo and `cargo xtask`; this file is the front door. See `make help`.
#
# SETS=8000 SLICES=1 make run      a larger tour
# HOSTS=3 make run                 a store, three nested machines, a rollout that goes back
# FLEET=1 make run                 5,000 containers made by the rules in examples/hosting
# make install DESTDIR=/tmp/x PREFIX=/usr

SETS ?= 1000
SLICES ?= 0
FLEET ?= 0
HOSTS ?= 0
PREFIX ?= /usr
DESTDIR ?=
CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)

# Static programs: they run in any root file system; their addresses are filled in from a table that is packed, which is
# 6 % of each. An explicit target keeps the flags from the programs that cargo builds for its own use. (What is exported here is not yet there for make's shell.)
TARGET = $(shell PATH='$(PATH)' rustc -vV 2>/dev/null | sed -n 's/^host: //p')
OUT = target/$(TARGET)/release
STATIC = RUSTFLAGS='-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs'
# It loads the machine's PAM, so it is linked dynamically; all else is static.
PAM = target/release/warren-pam

# The key of gpg that signs the repository.
KEY ?=

.PHONY: help run peers test build install deb repo rpm tarball sbom container docs clean tools
.DEFAULT_GOAL := help

help: ## this text
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile | expand -t 12

tools: ## install what building needs (Debian packages as root, the pinned toolchain)
	@sh scripts/tools.sh

run: build ## show the main job on SETS x 4 units in a nested manager
	@$(if $(filter-out 0,$(HOSTS)),HOSTS=$(HOSTS) PROGRAMS=$(CURDIR)/$(OUT) sh examples/hosts/tour.sh,\
	    $(OUT)/warren tour $(if $(filter 1 yes,$(FLEET)),--fleet examples/hosting,\
	    --sets $(SETS) $(if $(filter 1 yes,$(SLICES)),--slices)))

peers: ## install the Debian programs that tests compare with (as root)
	@sh scripts/peers.sh

test: ## everything that CI runs
	@sh scripts/tools.sh test
	@cargo xtask test

build: tools ## static release programs in target/
	@$(MAKE) --no-print-directory programs

# All of the crates' but warren-agent, which is a link to warren-hosts where it is installed.
PROGRAMS = warren warren-echo warren-init warren-exec warrend warren-journal warren-deviced warren-exporter warren-web \
    warren-hosts

.PHONY: programs
programs:
	$(STATIC) cargo build --locked --release --target $(TARGET) \
	    --package warren-cli --package warren-init --package warren-manager \
	    --package warren-journal --package warren-device --package warren-exporter --package warren-web \
	    --package warren-agent $(addprefix --bin ,$(PROGRAMS))
	for name in journald journalctl journal-access journal-gatewayd journal-upload; do \
	    ln -sf warren-journal $(OUT)/warren-$$name || exit 1; done
	cargo build --locked --release --package warren-pam
	cp $(PAM) $(OUT)/

install: ## install into $(DESTDIR)$(PREFIX); builds first when nothing is built
	@test -x $(OUT)/warrend || $(MAKE) --no-print-directory build
	@sh scripts/stage.sh "$(DESTDIR)" "$(PREFIX)" $(OUT)

deb: ## Debian packages in target/deb; builds first when nothing is built
	@test -x $(OUT)/warrend || $(MAKE) --no-print-directory build
	@sh scripts/deb.sh $(OUT) target/deb
	@if command -v lintian >/dev/null; then lintian --allow-root --fail-on error,warning target/deb/*.deb; fi

repo: deb ## a repository of them in target/repo; KEY=ID signs it with that key of gpg
	@sh scripts/repo.sh target/deb target/repo "$(KEY)"

rpm: ## RPM packages in target/rpm, but for boot entries; needs rpmbuild
	@test -x $(OUT)/warrend || $(MAKE) --no-print-directory build
	@sh scripts/rpm.sh $(OUT) target/rpm

tarball: ## a static tarball in target/tarball
	@test -x $(OUT)/warrend || $(MAKE) --no-print-directory build
	@sh scripts/tarball.sh $(OUT) target/tarball

sbom: ## what the programs are made from, as CycloneDX, in target/
	@cargo xtask sbom > target/warrener.cdx.json

container: ## the root file system of a container with Warrener alone, in target/container
	@test -x $(OUT)/warrend || $(MAKE) --no-print-directory build
	@sh scripts/container.sh $(OUT) target/container

docs: tools ## write the generated pages of docs/ again
	@cargo xtask docs

clean: ## remove what was built
	cargo clean
