# `make` alone lists the targets. Every target works from a clean clone with Go and a C compiler (for the race detector).

GO      ?= go
BIN     := bin/mapwright
EXAMPLE := examples/smallcrawler
FUZZTIME ?= 2m
CRASHES ?= 100
SOAK    ?= 10m
FLIPS   ?= 5000
COUNT   ?= 1
RUNS    ?= 20
CLUSTER ?= full
ENGINE  ?= postgres
REDIS   ?= single sentinel cluster
BROWSER ?= full
PARTITION ?= 5000000
TESTFLAGS ?=
SCREENSHOTS ?= bin/screenshots

# Tests and checks do without the profile in cmd/mapwright/default.pgo: with it every package is compiled once more. They
# also do without the tables for debuggers, which take half of the time of a link.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -pgo=off -ldflags=-w

# What make cross vets.
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 freebsd/amd64 freebsd/arm64
# Packages that make race leaves out.
RACE_WITHOUT =

.PHONY: help build pgo deploy-check image licences release-check vulncheck test test-long test-hard example race fuzz crash cluster-test service-test cluster-bench service-bench browser-test format-test urlfrontier-test bitflips large soak bench bench-peers bench-compare bench-record bench-smoke lint cross docs proto demo clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## build the binary into bin/
	$(GO) build -pgo=auto -ldflags= -trimpath -o $(BIN) ./cmd/mapwright

pgo: ## write the profile again by which the compiler optimises the program
	./scripts/pgo.sh

release-check: ## make the release of this commit twice, compare, install and run it; it is in bin/release (RELEASE_TARGETS=linux/amd64 makes only that)
	./scripts/release-check.sh

image: ## make the container image of this commit, bin/mapwright-image.tar, and run it with runc (Debian's packages runc and uidmap)
	./scripts/image-check.sh

deploy-check: ## let promtool, systemd-analyze and the schemas of Kubernetes, Compose and GitHub check the files in deploy and .github (scripts/deploy-check.sh --install gets them from Debian and PyPI)
	./scripts/deploy-check.sh

licences: ## list the licences of the modules that are in the program; one that is not known or not allowed is an error
	$(GO) run ./scripts/release licences

vulncheck: ## compare the modules and the code with the known faults of vuln.go.dev, or of a copy (VULNDB=file:///DIRECTORY)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.8.0 $(if $(VULNDB),-db $(VULNDB)) ./...

test: ## all tests but the long ones
	$(GO) test -timeout 30m $(TESTFLAGS) ./...

test-long: ## the tests that are marked as long: many pages, many kills, full disks
	./scripts/test-long.sh $(TESTFLAGS)

test-hard: ## make test RUNS times (default 20), each time from an empty build cache, every second time beside four busy loops and a disk writer
	./scripts/test-hard.sh $(RUNS)

example: ## vet and test the crawler in examples, a module of its own that uses the public packages only
	cd $(EXAMPLE) && $(GO) vet ./... && $(GO) test -count=1 $(TESTFLAGS) ./...

# SQLite is C that was translated to Go: the detector makes it many times slower, and looks for nothing of ours in it.
race: ## the tests of all packages with goroutines or locks, but the long ones, under the race detector
	$(GO) test -race -gcflags=modernc.org/sqlite/lib=-race=false -timeout 20m $(filter-out $(RACE_WITHOUT),$(shell GO=$(GO) ./scripts/concurrent.sh))

fuzz: ## fuzz every target for FUZZTIME each (default 2m)
	./scripts/fuzz.sh $(FUZZTIME)

crash: ## kill the real binary CRASHES times (default 100), over plain and over difficult sites and in recrawls, and compare with an unkilled run
	$(GO) test -count=1 -run TestCrash -timeout 60m ./internal/test/e2e/crash ./internal/test/e2e/recrawl -crashes $(CRASHES) -v

cluster-test: ## several machines against a real PostgreSQL server with a standby, or with ENGINE=redis against Redis as a single server, with sentinels and as a cluster (REDIS=single only one of them), which the tests start in directories of their own; CLUSTER=short takes a few minutes
	./scripts/need-$(ENGINE).sh
	$(GO) vet -tags cluster ./internal/cluster/... ./internal/test/... ./bench
	$(GO) test -tags cluster -count=1 -timeout 20m $(TESTFLAGS) ./internal/cluster/$(ENGINE) $(if $(filter redis,$(ENGINE)),,./internal/cluster ./internal/cluster/replay ./internal/cluster/session ./internal/test/pgtest)
	for layout in $(if $(filter redis,$(ENGINE)),$(REDIS),single); do \
		$(GO) test -tags cluster -count=1 -timeout 60m -parallel 8 $(TESTFLAGS) ./internal/test/e2e/cluster -engine $(ENGINE) -redis $$layout -cluster-full=$(if $(filter short,$(CLUSTER)),false,true) || exit 1; \
	done

cluster-bench: ## one machine over PostgreSQL (ENGINE=redis: over Redis) beside none in scenario (b), the replay of its log, 1 to 3 machines over a slow web, and the time of takeovers, one of them of a partition of PARTITION URLs (default 5 million)
	./scripts/need-$(ENGINE).sh
	MAPWRIGHT_BENCH_PARTITION=$(PARTITION) $(GO) test -tags cluster -run '^$$' -bench 'Cluster|Takeover' -benchtime 1x -count $(COUNT) -timeout 60m ./bench -engine $(ENGINE)

service-bench: ## reads, memory and events of a server with 1,000 crawls and 300 clients, the processor time of 100 open dashboards beside a crawl, and the 99th percentile of every filter and order of a million pages
	$(GO) test -run '^$$' -bench BenchmarkService -benchtime 1x -count $(COUNT) -timeout 60m ./internal/test/e2e/service
	$(GO) test -run '^$$' -bench Dashboards -benchtime 1x -count $(COUNT) -timeout 60m ./bench
	$(GO) test -run '^$$' -bench Query -benchtime 100x -count $(COUNT) -timeout 60m ./internal/results/pageindex

browser-test: ## pages in a real browser (Debian's Chromium) with axe-core; pictures of them go to SCREENSHOTS (default bin/screenshots). BROWSER=short makes, watches and reads one crawl
	BROWSER=$(BROWSER) ./scripts/need-chromium.sh
	$(GO) vet -tags browser ./internal/...
ifeq ($(BROWSER),short)
	$(GO) test -tags browser -count=1 -timeout 5m $(TESTFLAGS) -run '^TestBrowserStory$$/^1200-light$$' ./internal/service/serve
else
	MAPWRIGHT_SCREENSHOTS=$(abspath $(SCREENSHOTS)) $(GO) test -tags browser -p 1 -count=1 -timeout 60m $(TESTFLAGS) -run Browser $$(git grep -l '^//go:build browser' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
endif

service-test: ## the service behind a real nginx, and the commands of docs/service.md
	./scripts/need-nginx.sh
	$(GO) vet -tags service ./internal/test/e2e/service
	$(GO) test -tags service -count=1 -timeout 20m $(TESTFLAGS) ./internal/test/e2e/service

format-test: ## WARC files read by warcio and replayed by pywb, and Parquet files read by DuckDB (scripts/need-pytools.sh --install installs them from PyPI)
	./scripts/need-pytools.sh
	$(GO) vet -tags formats ./internal/test/e2e/results
	$(GO) test -tags formats -count=1 -timeout 20m $(TESTFLAGS) -run '^TestFormat' ./internal/test/e2e/results

urlfrontier-test: ## the official test suite and client of URLFrontier, built from URLFRONTIER_SRC, against mapwright frontier, and the commands of docs/urlfrontier.md (needs Java, Maven and the port 7071; scripts/need-urlfrontier.sh --install installs Debian's)
	./scripts/need-urlfrontier.sh
	$(GO) vet -tags urlfrontier ./internal/test/e2e/frontier
	$(GO) test -tags urlfrontier -count=1 -timeout 40m $(TESTFLAGS) -run '^TestOfficial' ./internal/test/e2e/frontier

bitflips: ## change FLIPS single bits (default 5000) in the files of a closed and of a killed store
	STATE_BITFLIPS=$(FLIPS) $(GO) test -count=1 -run TestBitFlips -timeout 120m ./state -v

large: ## a sitemap of 120,000 URLs in, a map of 120,000 pages out, and the memory of an export of 10 million (half an hour)
	$(GO) test -count=1 -run TestFetchingBeginsBeforeTheSitemapEnds -timeout 30m ./internal/crawl -sitemap-urls 120000 -v
	$(GO) test -count=1 -run 'TestLargeMap|TestExportMemory' -timeout 120m ./internal/test/e2e/results -map-pages 120000 -export-urls 10000000 -v

soak: ## crawl for SOAK (default 10m) and watch the slope of memory and goroutines
	$(GO) test -count=1 -run TestSoak -timeout 120m ./internal/test/e2e/crash -soak $(SOAK) -v

bench: ## the scenarios, ours beside bare and naive
	$(GO) test -run '^$$' -bench . -benchtime 1x -count $(COUNT) -timeout 60m ./bench

bench-peers: ## scenarios (a) and (b) with colly beside the others, which comes from a module of its own
	MAPWRIGHT_BENCH_PEERS=1 $(GO) test -run '^$$' -bench 'Crawl/scenario=[ab]_' -benchtime 1x -count $(COUNT) -timeout 60m ./bench

bench-compare: ## this tree against the last recorded results
	./scripts/bench-compare.sh

bench-record: ## three runs of everything, kept in bench/results, and RESULTS.md made anew by benchstat (about an hour)
	$(GO) run ./bench/record

bench-smoke: ## every benchmark of every package, once, small
	MAPWRIGHT_BENCH=smoke $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 10m $$(git grep -l '^func Benchmark' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')

lint: ## formatting, vet (also of the tests that need a browser, nginx or Python, which other targets run), staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run gofmt -w on these'; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags browser,service,formats,urlfrontier $$(git grep -lE '^//go:build (browser|service|formats|urlfrontier)' -- '*.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
	$(GO) tool staticcheck ./...
	staticcheck=$$($(GO) tool -n staticcheck) && cd $(EXAMPLE) && $(GO) vet ./... && $$staticcheck ./...

cross: ## vet everything, tests too, for each system and processor that is supported, or for PLATFORMS
	@for platform in $(PLATFORMS); do \
		echo "vet $$platform"; CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) vet ./... || exit 1; \
	done

docs: ## write the tables and the schema in docs again that follow from the code
	$(GO) test ./internal/page -run 'Documented|Schema' -update
	$(GO) test ./internal/config -run Documented -update
	$(GO) test ./internal/results/problems -run Documented -update

proto: ## write the Go code of the URLFrontier API again
	cd internal/urlfrontier/urlfrontierpb && $(GO) generate .

demo: ## serve a built-in site on loopback and crawl it
	$(GO) run ./cmd/mapwright demo

clean: ## remove what the targets made
	rm -rf bin
