# make test is the test command of the README. It installs what the tests need, and prints
# one line a package; the whole output is in bin/test.log.

GO ?= go
PKGS ?= ./...
TESTFLAGS ?=
BENCHFLAGS ?=

.PHONY: build test lint tools vulns release unit deps fuzz calendar bench load soak clean

build:
	$(GO) build -o bin/ailang-worldd ./cmd/ailang-worldd

test: deps lint vulns unit

# axe-core judges the workbench. The official TypeScript client is a caller in the end-to-end tests, and a server of OpenAI's API is asked questions there; an npm package is one of
# the repositories in which a day's work is done. The official conformance suite and the Inspector judge /mcp/, with the Node.js that they want.
deps:
	@command -v git >/dev/null || { echo "git is needed: install it and run make test again"; exit 1; }
	@command -v npm >/dev/null || { echo "npm (Node.js 20 or later) is needed for the client tests: install it and run make test again"; exit 1; }
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || echo "PostgreSQL's server programs are not here (Debian: apt-get install postgresql): the tests of that store are skipped"
	@for d in test/clients/typescript test/clients/model test/repos/npm test/workbench test/conformance; do \
	( cd $$d && { [ -d node_modules ] && [ node_modules -nt package-lock.json ] || npm ci --ignore-scripts --no-fund --no-audit --loglevel=error; } ) || exit 1; done

lint:
	@files=$$(git ls-files '*.go'); [ -n "$$files" ] || { echo "this is no checkout: git knows no files"; exit 1; }; out=$$(gofmt -l $$files); [ -z "$$out" ] || { echo "not formatted: $$out"; exit 1; }
	$(GO) vet $(PKGS)
	$(GO) tool staticcheck $(PKGS)

# What judges the modules that are linked. They are modules of tools.mod, so that the daemon's own stay its own, and are built so that their bytes are
# the same everywhere: an SBOM names its maker by its hash.
tools:
	@CGO_ENABLED=0 GOFLAGS=-trimpath GOWORK=off GOOS= GOARCH= $(GO) build -modfile=tools.mod -o bin/tools/ tool

# A known vulnerability in what the daemon links and calls fails. Without the database nothing was checked: that is said, and fails nothing.
VULNDB ?= https://vuln.go.dev
VULNPKGS ?= ./cmd/ailang-worldd
VULNLOG ?= bin/vulns.log
vulns: tools
	@out=$$(bin/tools/govulncheck -db $(VULNDB) $(VULNPKGS) 2>&1); rc=$$?; echo "$$out" | tee $(VULNLOG); \
	case "$$rc:$$out" in 0:*) ;; \
	1:"govulncheck: fetching vulnerabilities: "*) echo "*** NOT CHECKED for known vulnerabilities: their database cannot be reached ***" | tee -a $(VULNLOG);; \
	*) exit 1;; esac

# The archive of a release for the platform of GOOS and GOARCH, with its SBOM and the licences of all it is made of: the same bytes from the same
# sources, Go, tar and gzip, in whatever folder; see docs/release.md. GOFLAGS and what else the environment says of builds has no part in it.
TAR ?= tar
version = $(shell sed -n 's/^const Version = "\(.*\)"$$/\1/p' host/world/world.go)
release = ailang-worldd-$(version)-$(shell $(GO) env GOOS)-$(shell $(GO) env GOARCH)
release: export CGO_ENABLED = 0
release: export GOFLAGS = -trimpath -buildvcs=false
release: export GOWORK = off
release: export GOEXPERIMENT =
release: export GOAMD64 = v1
release: export GOARM64 = v8.0
release: tools
	@[ ! -e bin/release ] || { chmod -R u+w bin/release && rm -rf bin/release; }
	@mkdir -p bin/release/$(release)
	@set -e; d=bin/release/$(release); \
	$(GO) build -ldflags='-s -w' -o $$d/ailang-worldd ./cmd/ailang-worldd; \
	bin/tools/cyclonedx-gomod bin -json -std -noserial -notimestamp -version v$(version) -output $$d/sbom.cdx.json $$d/ailang-worldd; \
	GOROOT="$$($(GO) env GOROOT)" bin/tools/go-licenses save ./cmd/ailang-worldd --save_path $$d/licences 2>bin/licences.log || { cat bin/licences.log; exit 1; }; \
	chmod -R u+w $$d/licences; mkdir $$d/licences/go; cp "$$($(GO) env GOROOT)/LICENSE" $$d/licences/go/; cp notices/*.txt $$d/licences/; \
	cp LICENSE README.md CHANGELOG.md SECURITY.md $$d/; cp -r docs $$d/; \
	cd $$d; find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum >SHA256SUMS; cd ..; \
	$(TAR) --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - $(release) | gzip -9n >$(release).tar.gz; \
	sha256sum $(release).tar.gz | tee $(release).tar.gz.sha256

unit:
	@mkdir -p bin
	@GORACE="$$GORACE atexit_sleep_ms=0" $(GO) test -race -timeout 20m -v $(TESTFLAGS) $(PKGS) >bin/test.log 2>&1; rc=$$?; \
	grep -E '^(ok|FAIL|panic:)|^ *--- (FAIL|SKIP)' bin/test.log || true; \
	if [ $$rc -ne 0 ]; then grep -nE -B30 '^ *--- FAIL|^panic:|DATA RACE|\[build failed\]' bin/test.log | tail -n 200; fi; exit $$rc

# Every fuzz target for FUZZTIME, one after the other. What fails is written into the package's testdata/fuzz; a failure without that is the
# engine's, which can take the end of its time for one: then it runs once more.
FUZZTIME ?= 10m
FUZZDIRS ?= $(shell git ls-files '*_test.go' | xargs grep -l '^func Fuzz' | xargs -n1 dirname | sort -u)
FUZZLOG ?= bin/fuzz.log
fuzz:
	@mkdir -p bin; : >$(FUZZLOG); [ -n "$(FUZZDIRS)" ] || { echo "this is no checkout: git knows no tests"; exit 1; }; for d in $(FUZZDIRS); do \
	for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9]*' $$d/*_test.go | cut -d' ' -f2); do \
	hunt() { $(GO) test ./$$d -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) >bin/fuzz.out 2>&1; rc=$$?; cat bin/fuzz.out >>$(FUZZLOG); return $$rc; }; \
	hunt || { [ -z "$$(git status --porcelain $$d/testdata/fuzz)" ] && hunt; } || { cat bin/fuzz.out; exit 1; }; \
	n=$$(grep -o 'execs: [0-9]*' bin/fuzz.out | tail -n 1); echo "$$d $$f: $${n:-time for its seeds alone}"; done; done

# The liturgical calendar against romcal, day by day, and the table of readings against citations from elsewhere, if CITATIONS names a file of them; see docs/calendar.md.
CITATIONS ?=
calendar: SHELL = bash
calendar:
	cd test/romcal && npm ci --ignore-scripts --legacy-peer-deps --no-fund --no-audit --loglevel=error
	@set -o pipefail; for c in general-roman ireland malta united-states; do node test/romcal/days.mjs $$c 1970 2199 | $(GO) run ./test/romcal $$c || exit 1; done
	@if [ -n "$(CITATIONS)" ]; then $(GO) run ./test/lectionary $(CITATIONS); fi

# Side by side, ratios first; see bench/README.md. BENCHFLAGS="-short" shows that it works,
# "-write bench/README.md" keeps the tables. Stores that take long to fill stay in bin/bench.
bench: build
	$(GO) build -o bin/world-bench ./bench
	bin/world-bench -worldd bin/ailang-worldd -cache bin/bench $(BENCHFLAGS)

# What a daemon of its own bears: capacity, four fifths of it held, overloads. soak holds for half
# an hour. Pictures and summaries go to LOADOUT.
LOADFLAGS ?=
LOADOUT ?= bin/load
load: build
	$(GO) build -o bin/world-load ./bench/load
	bin/world-load -worldd bin/ailang-worldd -scratch bin -out $(LOADOUT)/load $(LOADFLAGS)

soak: build
	$(GO) build -o bin/world-load ./bench/load
	bin/world-load -worldd bin/ailang-worldd -scratch bin -parts capacity,steady,hold -slice 45s -hold 30m -window 10s -title "Half an hour at four fifths" -out $(LOADOUT)/soak $(LOADFLAGS)

clean:
	rm -rf bin
