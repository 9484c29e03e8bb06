# Everything is done by cargo and `cargo xtask`; this file is the front door. See `make help`.
#
# SETS=8000 SLICES=1 make run      a larger tour
# FLEET=1 make run                 5,000 containers made by the rules in examples/hosting
# make install DESTDIR=/tmp/x PREFIX=/usr

SETS ?= 1000
SLICES ?= 0
FLEET ?= 0
PREFIX ?= /usr
DESTDIR ?=
CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)

# Static programs: they run in any root file system. An explicit target keeps the flag from the
# programs that cargo builds for its own use. (What is exported here is not yet there for make's shell.)
TARGET = $(shell PATH='$(PATH)' rustc -vV 2>/dev/null | sed -n 's/^host: //p')
OUT = target/$(TARGET)/release
STATIC = RUSTFLAGS='-C target-feature=+crt-static'
# It loads the machine's PAM, so it is linked dynamically; all else of it is static.
PAM = target/release/warren-pam
DAEMONS = warren-init warren-exec warrend warren-journald warren-journal-access warren-journal-gatewayd \
    warren-journal-upload warren-deviced
COMMANDS = warren warren-journalctl
# What a shell or one of our programs writes is for all to read, whatever the umask.
ALL_READ = umask 022
# Units that stand in for systemd's own: only Warrener looks there.
UNITS = $(DESTDIR)$(PREFIX)/lib/warren/system

.PHONY: help run peers test build install docs clean tools
.DEFAULT_GOAL := help

help: ## this text
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile | expand -t 12

tools: ## install what building needs (Debian packages as root, the pinned toolchain)
	@sh scripts/tools.sh

run: build ## show the main job on SETS x 4 units in a nested manager
	@$(OUT)/warren tour $(if $(filter 1 yes,$(FLEET)),--fleet examples/hosting,\
	    --sets $(SETS) $(if $(filter 1 yes,$(SLICES)),--slices))

peers: ## install the Debian programs that tests compare with (as root)
	@sh scripts/peers.sh

test: ## everything that CI runs
	@sh scripts/tools.sh test
	@cargo xtask test

build: tools ## static release programs in target/
	@$(MAKE) --no-print-directory programs

.PHONY: programs
programs:
	$(STATIC) cargo build --locked --release --target $(TARGET) \
	    --package warren-cli --package warren-init --package warren-manager \
	    --package warren-log-daemon --package warren-log-show --package warren-log-net --package warren-device --bins
	cargo build --locked --release --package warren-pam

install: ## install into $(DESTDIR)$(PREFIX); builds first when nothing is built
	@test -x $(OUT)/warrend || $(MAKE) --no-print-directory build
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/warren $(DESTDIR)$(PREFIX)/share/man/man1
	# Stripped, with the symbols in .debug beside them.
	set -e; for p in $(DAEMONS) warren-echo; do \
	    sh scripts/install-program.sh $(OUT)/$$p $(DESTDIR)$(PREFIX)/lib/warren; done
	sh scripts/install-program.sh $(PAM) $(DESTDIR)$(PREFIX)/lib/warren
	set -e; for p in $(COMMANDS); do \
	    sh scripts/install-program.sh $(OUT)/$$p $(DESTDIR)$(PREFIX)/bin; done
	install -d $(UNITS)/sysinit.target.wants $(UNITS)/sockets.target.wants
	$(ALL_READ); for u in $$(find units -type f); do mkdir -p "$(UNITS)/$$(dirname $${u#units/})"; \
	    sed -e 's|/usr/lib/warren/|$(PREFIX)/lib/warren/|' \
	    -e 's|/usr/bin/|$(PREFIX)/bin/|' $$u > $(UNITS)/$${u#units/}; done
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system-preset presets/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/sysusers.d sysusers/*
	for s in systemd-journald systemd-journal-flush warren-deviced; do \
	    ln -sf ../$$s.service $(UNITS)/sysinit.target.wants/; done
	for s in systemd-journald systemd-journald-dev-log; do \
	    ln -sf ../$$s.socket $(UNITS)/sockets.target.wants/; done
	ln -sf /dev/null $(UNITS)/systemd-journald-audit.socket
	install -D -m 644 bus/warrener.conf $(DESTDIR)$(PREFIX)/share/dbus-1/system.d/warrener.conf
	install -d $(DESTDIR)$(PREFIX)/share/doc/warrener
	install -m 644 LICENSE-MIT LICENSE-APACHE CHANGELOG.md $(DESTDIR)$(PREFIX)/share/doc/warrener/
	# Where it is, messages are kept on the disk.
	install -d -m 755 $(DESTDIR)/var/log/warren
	$(ALL_READ); $(OUT)/warren man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	    $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions \
	    $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(ALL_READ); $(OUT)/warren completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/warren
	$(ALL_READ); $(OUT)/warren completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_warren
	$(ALL_READ); $(OUT)/warren completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/warren.fish

docs: tools ## write the generated pages of docs/ again
	@cargo xtask docs

clean: ## remove what was built
	cargo clean
