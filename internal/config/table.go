package config

import (
	"runtime"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/parser"
)

// Group gathers settings in help texts and documents.
type Group string

// The groups.
const (
	Controls Group = "The ten controls"
	Governor Group = "The governor"
	Pace     Group = "Pace and retries"
	Limits   Group = "Limits"
	Robots   Group = "robots.txt"
	Fetching Group = "Fetching"
	Scope    Group = "Scope and links"
	Seeding  Group = "Seeding"
	Output   Group = "Output"
	Engine   Group = "Engine"
	Seeing   Group = "Seeing it run"
)

// Entry is one setting: its name, its other names, what it means, and where its value is stored.
type Entry struct {
	Name  string   // as a flag, without the dashes; the other forms follow from it
	Flags []string // other flag names
	Env   []string // environment names without the prefix that mean the same; the prefixed name wins. Help lists them
	Group Group
	Usage string
	Value Value
	// EnvMinutes is an environment alias that gives minutes where the setting takes a duration.
	EnvMinutes string
	// Permission says who may use the setting in a submitted crawl. Values within Free, if it is not nil, are free for
	// every account.
	Permission Permission
	Free       *Range
	// PerRun settings are about this process and this machine, so a resumed crawl does not inherit them.
	PerRun bool
}

// Ends of ranges. A value within its range is one that every part of the program takes.
const (
	day      = 24 * time.Hour
	dayMS    = int(day / time.Millisecond)
	daySecs  = int(day / time.Second)
	billion  = 1_000_000_000
	trillion = 1000 * billion
)

// Table lists every setting with its value in s, in the order in which help and --print-config show them. The defaults
// are the values that s gets from Defaults. The range of a number is part of its Value.
func (s *Settings) Table() []Entry {
	usual := Defaults(Polite)
	return []Entry{
		{Name: "max-workers", Flags: []string{"workers"}, Env: []string{"MAX_WORKERS"}, Group: Controls,
			Value: intValue{&s.MaxWorkers, 1, 1 << 16}, Permission: Operator,
			Usage: "fetches and parses under way at once, over all hosts"},
		{Name: "max-inflight-per-host", Env: []string{"MAX_INFLIGHT_PER_HOST"}, Group: Controls,
			Value: intValue{&s.MaxInflightPerHost, 1, 10_000}, Permission: OwnHost,
			Free:  between(1, usual.MaxInflightPerHost),
			Usage: "fetches of one host under way at once (own-site: the most that adapting may reach)"},
		{Name: "global-frontier-size-limit", Env: []string{"GLOBAL_FRONTIER_SIZE_LIMIT"}, Group: Controls,
			Value: intValue{&s.GlobalFrontierSizeLimit, 1, billion}, Permission: Operator,
			Usage: "URLs held in memory; those over it wait on disk"},
		{Name: "min-delay-ms", Env: []string{"MIN_DELAY_MS"}, Group: Controls, Value: intValue{&s.MinDelayMS, 0, dayMS},
			Permission: OwnHost, Free: atLeast(usual.MinDelayMS),
			Usage: "least delay between request starts of one host, in milliseconds"},
		{Name: "max-delay-ms", Env: []string{"MAX_DELAY_MS"}, Group: Controls, Value: intValue{&s.MaxDelayMS, 0, dayMS},
			Permission: OwnHost, Free: atLeast(usual.MaxDelayMS),
			Usage: "largest random delay between request starts of one host, in milliseconds"},
		{Name: "max-host-backoff-secs", Env: []string{"MAX_HOST_BACKOFF_SECS"}, Group: Controls,
			Value: intValue{&s.MaxHostBackoffSecs, 1, 365 * daySecs}, Permission: OwnHost,
			Free:  atLeast(usual.MaxHostBackoffSecs),
			Usage: "longest pause after failures of one host, in seconds"},
		{Name: "max-host-failures", Env: []string{"MAX_HOST_FAILURES"}, Group: Controls,
			Value: intValue{&s.MaxHostFailures, 1, 255}, Permission: OwnHost, Free: between(1, usual.MaxHostFailures),
			Usage: "failures in a row that block a host"},
		{Name: "bloom-capacity", Env: []string{"BLOOM_CAPACITY"}, Group: Controls,
			Value: intValue{&s.BloomCapacity, 1, 10 * billion}, Permission: Operator,
			Usage: "URLs that the dedup filter is laid out for; it grows by itself"},
		{Name: "bloom-fp-rate", Env: []string{"BLOOM_FP_RATE"}, Group: Controls,
			Value: floatValue{&s.BloomFPRate, 1e-6, 0.5}, Permission: Operator,
			Usage: "share of false positives that the dedup filter may have; they cost a look-up, never a URL"},
		{Name: "parse-semaphore-limit", Env: []string{"PARSE_SEMAPHORE_LIMIT"}, Group: Controls,
			Value: intValue{&s.ParseSemaphoreLimit, 1, billion}, Permission: Operator,
			Usage: "pages parsed at once"},
		{Name: "robots-fetch-semaphore-limit", Env: []string{"ROBOTS_FETCH_SEMAPHORE_LIMIT"}, Group: Controls,
			Value: intValue{&s.RobotsFetchSemaphoreLimit, 1, billion}, Permission: Operator,
			Usage: "robots.txt fetches at once"},
		{Name: "fp-check-semaphore-limit", Env: []string{"FP_CHECK_SEMAPHORE_LIMIT"}, Group: Controls,
			Value: intValue{&s.FPCheckSemaphoreLimit, 1, billion}, Permission: Operator,
			Usage: "dedup look-ups in the store at once"},
		{Name: "ready-heap-size-limit", Env: []string{"READY_HEAP_SIZE_LIMIT"}, Group: Controls,
			Value: intValue{&s.ReadyHeapSizeLimit, 1, billion}, Permission: Operator,
			Usage: "hosts held ready in memory; those over it are parked on disk"},

		{Name: "governor-enabled", Env: []string{"GOVERNOR_ENABLED"}, Group: Governor,
			Value: boolValue{&s.GovernorEnabled}, Permission: Operator,
			Usage: "shrink the workers while commits are slow"},
		{Name: "throttle-threshold-ms", Env: []string{"THROTTLE_THRESHOLD_MS"}, Group: Governor,
			Value: intValue{&s.ThrottleThresholdMS, 1, dayMS}, Permission: Operator,
			Usage: "commit latency above which workers shrink, in milliseconds"},
		{Name: "unthrottle-threshold-ms", Env: []string{"UNTHROTTLE_THRESHOLD_MS"}, Group: Governor,
			Value: intValue{&s.UnthrottleThresholdMS, 1, dayMS}, Permission: Operator,
			Usage: "commit latency below which they grow back, in milliseconds"},

		{Name: "base-delay-ms", Env: []string{"BASE_DELAY_MS"}, Group: Pace, Value: intValue{&s.BaseDelayMS, 0, dayMS},
			Permission: Tenant,
			Usage:      "raises the delay of any profile to at least this, in milliseconds"},
		{Name: "max-adaptive-delay-secs", Env: []string{"MAX_ADAPTIVE_DELAY_SECS"}, Group: Pace,
			Value: intValue{&s.MaxAdaptiveDelaySecs, 1, daySecs}, Permission: OwnHost,
			Free:  atLeast(usual.MaxAdaptiveDelaySecs),
			Usage: "largest delay that refusals can teach, in seconds"},
		{Name: "adaptive-step-ms", Env: []string{"ADAPTIVE_STEP_MS"}, Group: Pace,
			Value: intValue{&s.AdaptiveStepMS, 1, dayMS}, Permission: OwnHost,
			Usage: "what one refusal adds to the learned delay and one probe takes off, in milliseconds"},
		{Name: "probe-after-successes", Env: []string{"PROBE_AFTER_SUCCESSES"}, Group: Pace,
			Value: intValue{&s.ProbeAfterSuccesses, 1, 60_000}, Permission: OwnHost,
			Free:  atLeast(usual.ProbeAfterSuccesses),
			Usage: "successes in a row after which a shorter delay is tried"},
		{Name: "max-retries", Env: []string{"MAX_RETRIES"}, Group: Pace, Value: intValue{&s.MaxRetries, 0, 250},
			Permission: OwnHost, Free: between(0, usual.MaxRetries),
			Usage: "further tries of a URL that was refused or failed"},
		{Name: "failure-threshold", Group: Pace, Value: intValue{&s.FailureThreshold, 0, 65_535}, Permission: OwnHost,
			Free:  between(1, usual.FailureThreshold),
			Usage: "URL failures in a row that abandon a domain (0 is off)"},
		{Name: "cancel-on-throttle", Group: Pace, Value: boolValue{&s.CancelOnThrottle}, Permission: Tenant,
			Usage: "abandon a domain after 20 refusals in a row at the largest delay"},
		{Name: "retry-crashed", Group: Pace, Value: boolValue{&s.RetryCrashed}, PerRun: true, Permission: Admin,
			Usage: "resume: try pages and sitemaps again, each alone, that were given up because the process ended " +
				"while they were read (outcome crashed)"},

		{Name: "max-urls", Flags: []string{"max-pages"}, Env: []string{"MAX_PAGES"}, Group: Limits,
			Value: intValue{&s.MaxURLs, 0, trillion}, Permission: Tenant,
			Usage: "pages to fetch in all runs of the crawl together (0 is no limit)"},
		{Name: "max-urls-per-host", Group: Limits, Value: intValue{&s.MaxURLsPerHost, 0, trillion}, Permission: Tenant,
			Usage: "pages to fetch of one host (0 is no limit)"},
		{Name: "max-depth", Group: Limits, Value: intValue{&s.MaxDepth, -1, 60000}, Permission: Tenant,
			Usage: "how many links a URL may be away from a start page or from a URL that a sitemap or an index " +
				"names; 0 is the start pages alone, without sitemaps and indexes (-1 is no limit)"},
		{Name: "duration", EnvMinutes: "MAX_SCAN_TIME_MINUTES", Group: Limits,
			Value: durationValue{&s.Duration, 0, 3650 * day}, Permission: Tenant,
			Usage: "wall time of a run; 'resume' counts anew, unlike max-urls, and a server counts all runs (0 is no " +
				"limit)"},
		{Name: "grace", Group: Limits, Value: durationValue{&s.Grace, 0, day}, Permission: Operator,
			Usage: "how long fetches under way may go on after an interrupt"},

		{Name: "robots-strict", Group: Robots, Value: boolValue{&s.RobotsStrict}, Permission: Tenant,
			Usage: "treat a robots.txt that cannot be fetched as disallowing everything"},
		{Name: "ignore-robots", Group: Robots, Value: boolValue{&s.IgnoreRobots}, Permission: OwnHost,
			Usage: "do not ask for robots.txt at all"},

		{Name: "timeout", Group: Fetching, Value: durationValue{&s.Timeout, time.Millisecond, day}, Permission: Admin,
			Free:  between(1, 120),
			Usage: "time for one whole fetch"},
		{Name: "user-agent", Env: []string{"USER_AGENT"}, Group: Fetching,
			Value: stringValue{p: &s.UserAgent, check: checkUserAgent}, Permission: Tenant,
			Usage: "User-Agent header; its first word is the name that robots.txt is asked for"},
		{Name: "header", Group: Fetching, Value: listValue{p: &s.Headers, most: 100, check: checkHeader},
			Permission: Tenant,
			Usage: "extra request header 'Name: value'; one that may be a credential goes to the origins of the " +
				"start URLs only (repeatable)"},
		{Name: "header-to", Group: Fetching, Value: listValue{p: &s.HeaderTo, most: 1000, check: checkOrigin},
			Permission: Tenant,
			Usage: "another origin that gets every header, such as https://api.example.com or *.example.com " +
				"(repeatable)"},
		{Name: "proxy", Group: Fetching, Value: stringValue{p: &s.Proxy, check: readBy(fetch.ParseProxy),
			form: formURL}, Permission: Admin,
			Usage: "proxy URL (http, https or socks5)"},
		{Name: "resolve", Group: Fetching, Value: listValue{p: &s.Resolve, most: 1000,
			check: readBy(fetch.ParseResolve)}, Permission: Admin,
			Usage: "HOST:PORT:ADDR[:PORT], dial ADDR for HOST:PORT; * matches any (repeatable)"},
		{Name: "allow-private", Group: Fetching, Value: boolValue{&s.AllowPrivate}, Permission: Admin,
			Usage: "allow private, loopback and link-local addresses"},
		{Name: "http2", Group: Fetching, Value: boolValue{&s.HTTP2}, Permission: Tenant,
			Usage: "use HTTP/2 where the server does"},
		{Name: "max-body-size", Group: Fetching, Value: bytesValue{&s.MaxBodySize, 1, 1 << 40}, Permission: Admin,
			Free:  between(1, usual.MaxBodySize),
			Usage: "largest page after decompression"},

		{Name: "scope", Group: Scope, Value: stringValue{p: &s.Scope, form: formName,
			choices: []string{"host", "domain", "subdomains", "prefix", "any"}}, Permission: Tenant,
			Usage: "which found URLs belong to the crawl: host, domain, subdomains, prefix or any"},
		{Name: "include", Group: Scope, Value: listValue{p: &s.Include, most: maxPatterns, check: checkRegexp},
			Permission: Tenant,
			Usage:      "only URLs that match this regular expression (repeatable)"},
		{Name: "exclude", Group: Scope, Value: listValue{p: &s.Exclude, most: maxPatterns, check: checkRegexp},
			Permission: Tenant,
			Usage:      "no URLs that match this regular expression (repeatable)"},
		{Name: "skip-extensions", Group: Scope, Value: listValue{p: &s.SkipExtensions, split: true, most: 1000},
			Permission: Tenant,
			Usage:      "path extensions that are not followed, comma separated"},
		{Name: "only-hosts", Group: Scope, Value: listValue{p: &s.OnlyHosts, split: true, most: maxOnlyHosts,
			check: checkHostPattern}, Permission: Tenant,
			Usage: "no other hosts than these and those of the start URLs, such as www.example.com or *.example.com, " +
				"comma separated"},
		{Name: "follow-nofollow", Group: Scope, Value: boolValue{&s.FollowNofollow}, Permission: Tenant,
			Usage: "follow links marked nofollow"},
		{Name: "structured-links", Group: Scope, Value: boolValue{&s.StructuredLinks}, Permission: Tenant,
			Usage: "URLs in JSON-LD and __NEXT_DATA__ count as links"},
		{Name: "images", Group: Scope, Value: boolValue{&s.Images}, Permission: Tenant,
			Usage: "record the images of pages, and list them in XML sitemaps"},
		{Name: "extract", Group: Scope, Value: listValue{p: &s.Extract, most: 100,
			check: readBy(parser.ParseExtractor)}, Permission: Tenant,
			Usage: "name=CSS-SELECTOR[@attr], recorded as extracted.name (repeatable)"},
		{Name: "traps", Group: Scope, Value: boolValue{&s.Traps}, Permission: Tenant,
			Usage: "recognise URLs of which a site makes endlessly many, and do not fetch them; one of more than " +
				"2,048 bytes is never fetched"},

		{Name: "seeding-strategy", Flags: []string{"seeding"}, Group: Seeding,
			Value:      listValue{p: &s.SeedingStrategy, split: true, most: 16, check: oneOf(seedings())},
			Permission: Tenant,
			Usage:      "where more URLs come from: " + strings.Join(seedings(), ", ") + ", or a comma list"},
		{Name: "ct-base-url", Group: Seeding, Value: stringValue{p: &s.CTBaseURL, check: checkURL, form: formURL},
			Permission: Admin,
			Usage:      "address of the certificate transparency search"},
		{Name: "commoncrawl-base-url", Group: Seeding, Value: stringValue{p: &s.CommonCrawlBaseURL, check: checkURL,
			form: formURL}, Permission: Admin,
			Usage: "address of the Common Crawl index"},
		{Name: "since", Group: Seeding, Value: stringValue{p: &s.Since, check: readBy(ParseDate), form: "date"},
			Permission: Tenant,
			Usage:      "skip sitemap entries older than this date (YYYY-MM-DD or RFC 3339)"},

		{Name: "base-url", Group: Output, Value: stringValue{p: &s.BaseURL, check: checkURL, form: formURL},
			Permission: Tenant,
			Usage:      "where the XML sitemaps will be served from; names the parts in the index"},
		{Name: "gzip", Group: Output, Value: boolValue{&s.Gzip}, Permission: Tenant,
			Usage: "compress the XML sitemaps"},
		{Name: "links", Group: Output, Value: boolValue{&s.Links}, Permission: Tenant,
			Usage: "record every link, and write links.jsonl"},
		{Name: "near-duplicates", Group: Output, Value: boolValue{&s.NearDuplicates}, Permission: Tenant,
			Usage: "compare the texts of pages, and report those that are almost the same"},
		{Name: "check-soft-404", Group: Output, Value: boolValue{&s.CheckSoft404}, Permission: Tenant,
			Usage: "ask each origin once for a page that does not exist, and report pages with the same text; off by " +
				"default, since it costs one request per origin"},
		{Name: "csv", Group: Output, Value: boolValue{&s.CSV}, Permission: Tenant,
			Usage: "write sitemap.csv too"},
		{Name: "hreflang", Group: Output, Value: boolValue{&s.Hreflang}, Permission: Tenant,
			Usage: "list language alternates in XML sitemaps"},
		{Name: "xml-types", Group: Output, Value: listValue{p: &s.XMLTypes, split: true, most: 1000},
			Permission: Tenant,
			Usage:      "content types that XML sitemaps may list, comma separated"},

		{Name: "shards", PerRun: true, Group: Engine, Value: intValue{&s.Shards, 1, 256}, Permission: Operator,
			Usage: "shards of the frontier"},
		{Name: "save-interval", Group: Engine, Value: durationValue{&s.SaveInterval, time.Millisecond, 365 * day},
			Permission: Operator,
			Usage:      "time between checkpoints"},

		{Name: "log-format", PerRun: true, Group: Seeing, Permission: Operator,
			Value: stringValue{p: &s.LogFormat, form: formName, choices: []string{"text", "json"}},
			Usage: "text or json"},
		{Name: "log-level", PerRun: true, Group: Seeing, Permission: Operator,
			Value: stringValue{p: &s.LogLevel, form: formName, choices: []string{"debug", "info", "warn", "error"}},
			Usage: "debug, info, warn or error"},
		{Name: "log-file", PerRun: true, Group: Seeing, Value: stringValue{p: &s.LogFile}, Permission: Operator,
			Usage: "file for the log, and nothing on standard error; the default is mapwright.log in the data " +
				"directory, and standard error where there is no live view"},
		{Name: "no-progress", PerRun: true, Group: Seeing, Value: boolValue{&s.NoProgress}, Permission: Operator,
			Usage: "no live view on a terminal"},
		{Name: "metrics-addr", PerRun: true, Group: Seeing, Value: stringValue{p: &s.MetricsAddr, check: checkAddress},
			Permission: Operator,
			Usage:      "serve /metrics, /status, /healthz and pprof on this address"},
		{Name: "metric-export-interval-secs", Env: []string{"METRIC_EXPORT_INTERVAL_SECS"}, Group: Seeing,
			Value: intValue{&s.MetricExportIntervalSecs, 0, 365 * daySecs}, Permission: Operator,
			Usage: "seconds between lines of metrics.jsonl (0 is off)"},
	}
}

// defaultShards is one per CPU, within what Table allows.
func defaultShards() int { return min(runtime.GOMAXPROCS(0), 256) }
