# instancefs. `make help` lists the targets.

PREFIX ?= /usr/local
CARGO ?= cargo
DESTDIR ?=

.DEFAULT_GOAL := help
.PHONY: help run build test check fmt bench install uninstall soak fuzz clean-mounts

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

run: ## Install what is missing, build, and mount an example instance at ./instance
	@scripts/run.sh

build: ## Build everything (debug)
	$(CARGO) build --workspace --all-targets

test: ## Install what is missing, build, and run every test, mount tests included
	@scripts/test.sh

check: ## Format, lints, layers, documentation, licences
	@scripts/check.sh

fmt: ## Format the code
	$(CARGO) fmt --all

bench: ## Measure the mount against the disk and plain SQLite (WRITE=1 keeps the table in docs)
	$(CARGO) build --release --workspace --bins
	$${CARGO_TARGET_DIR:-target}/release/bench $(if $(WRITE),--write) $(BENCH_ARGS)

soak: ## Every long test at the same time for MINUTES (10), seed SEED (1), then fuzzing, FUZZ_SECONDS (600) for each target; ONLY=random,koan,model,crashes,faults,worlds,sequences,fuzz
	$(CARGO) build --release --workspace --bins
	scripts/soak.sh --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) --fuzz-seconds $(or $(FUZZ_SECONDS),600) $(if $(ONLY),--only $(ONLY))

fuzz: ## Look for inputs that break a property, SECONDS (60) for each target (TARGET=all)
	@scripts/fuzz.sh $(or $(TARGET),all) $(or $(SECONDS),60)

install: ## Build and install the binary and the systemd units under PREFIX (default /usr/local)
	$(CARGO) build --release --bin instancefs
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 "$${CARGO_TARGET_DIR:-target}/release/instancefs" "$(DESTDIR)$(PREFIX)/bin/instancefs"
	install -d "$(DESTDIR)$(PREFIX)/lib/systemd/system" "$(DESTDIR)$(PREFIX)/lib/systemd/user"
	sed 's|/usr/local/bin|$(PREFIX)/bin|' scripts/systemd/instancefs@.service > "$(DESTDIR)$(PREFIX)/lib/systemd/system/instancefs@.service"
	sed 's|/usr/local/bin|$(PREFIX)/bin|' scripts/systemd/instancefs-user@.service > "$(DESTDIR)$(PREFIX)/lib/systemd/user/instancefs@.service"

uninstall: ## Remove what `make install` installed
	rm -f "$(DESTDIR)$(PREFIX)/bin/instancefs" "$(DESTDIR)$(PREFIX)/lib/systemd/system/instancefs@.service" \
	  "$(DESTDIR)$(PREFIX)/lib/systemd/user/instancefs@.service"

clean-mounts: ## Unmount what broken test runs left mounted under /var/tmp
	@scripts/clean-mounts.sh /var/tmp || true
