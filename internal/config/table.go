package config

import (
	"runtime"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/internal/web/sitemap"
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
	Access   Group = "Access"
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
	// Fixed settings decide which URLs are the same, so a crawl keeps them as long as it exists.
	Fixed bool
	// PerRun settings are about this process and this machine, so a resumed crawl does not inherit them.
	PerRun bool
	// Local settings are files of this machine, or credentials. They are stored with a crawl, but each run and each
	// machine of a cluster may have its own, also by the environment.
	Local bool
	// Hide makes a text of the setting that has no secret in it; nil if the setting never has one. A crawl does not
	// store the secret of a Local setting: see Stored.
	Hide func(text string) string
}

// Ends of ranges. Every part of the program accepts each value within its range.
const (
	day      = 24 * time.Hour
	dayMS    = int(day / time.Millisecond)
	daySecs  = int(day / time.Second)
	billion  = 1_000_000_000
	trillion = 1000 * billion
)

// Table lists every setting with its value in s, in the order in which help and --print-config show them. The default
// of a setting and the range of a number are part of its Value. A free range ends at the default, but for timeout.
func (s *Settings) Table() []Entry {
	return []Entry{
		{Name: "max-workers", Flags: []string{"workers"}, Env: []string{"MAX_WORKERS"}, Group: Controls,
			Permission: Operator, Value: number(&s.MaxWorkers, 512, 1, 1<<16),
			Usage: "fetches and parses under way at once, over all hosts"},
		{Name: "max-inflight-per-host", Env: []string{"MAX_INFLIGHT_PER_HOST"}, Group: Controls, Permission: OwnHost,
			Value: number(&s.MaxInflightPerHost, 2, 1, 10_000), Free: between(1, 2),
			Usage: "fetches of one host under way at once (own-site: the most that adapting may reach)"},
		{Name: "global-frontier-size-limit", Env: []string{"GLOBAL_FRONTIER_SIZE_LIMIT"}, Group: Controls,
			Permission: Operator, Value: number(&s.GlobalFrontierSizeLimit, 5_000_000, 1, billion),
			Usage: "URLs held in memory; those over it wait on disk"},
		{Name: "min-delay-ms", Env: []string{"MIN_DELAY_MS"}, Group: Controls, Permission: OwnHost,
			Value: number(&s.MinDelayMS, 200, 0, dayMS), Free: atLeast(200),
			Usage: "least delay between request starts of one host, in milliseconds"},
		{Name: "max-delay-ms", Env: []string{"MAX_DELAY_MS"}, Group: Controls, Permission: OwnHost,
			Value: number(&s.MaxDelayMS, 500, 0, dayMS), Free: atLeast(500),
			Usage: "largest random delay between request starts of one host, in milliseconds"},
		{Name: "max-host-backoff-secs", Env: []string{"MAX_HOST_BACKOFF_SECS"}, Group: Controls, Permission: OwnHost,
			Value: number(&s.MaxHostBackoffSecs, 3600, 1, 365*daySecs), Free: atLeast(3600),
			Usage: "longest pause after failures of one host, in seconds"},
		{Name: "max-host-failures", Env: []string{"MAX_HOST_FAILURES"}, Group: Controls, Permission: OwnHost,
			Value: number(&s.MaxHostFailures, 10, 1, 255), Free: between(1, 10),
			Usage: "failures in a row that block a host"},
		{Name: "bloom-capacity", Env: []string{"BLOOM_CAPACITY"}, Group: Controls, Permission: Operator,
			Value: number(&s.BloomCapacity, 10_000_000, 1, 10*billion),
			Usage: "URLs that the dedup filter is laid out for; it grows by itself"},
		{Name: "bloom-fp-rate", Env: []string{"BLOOM_FP_RATE"}, Group: Controls, Permission: Operator,
			Value: number(&s.BloomFPRate, 0.01, 1e-6, 0.5),
			Usage: "share of false positives that the dedup filter may have; they cost a look-up, never a URL"},
		{Name: "parse-semaphore-limit", Env: []string{"PARSE_SEMAPHORE_LIMIT"}, Group: Controls, Permission: Operator,
			Value: number(&s.ParseSemaphoreLimit, 128, 1, billion), Usage: "pages parsed at once"},
		{Name: "robots-fetch-semaphore-limit", Env: []string{"ROBOTS_FETCH_SEMAPHORE_LIMIT"}, Group: Controls,
			Permission: Operator, Value: number(&s.RobotsFetchSemaphoreLimit, 64, 1, billion),
			Usage: "robots.txt fetches at once"},
		{Name: "fp-check-semaphore-limit", Env: []string{"FP_CHECK_SEMAPHORE_LIMIT"}, Group: Controls,
			Permission: Operator, Value: number(&s.FPCheckSemaphoreLimit, 512, 1, billion),
			Usage: "dedup look-ups in the store at once"},
		{Name: "ready-heap-size-limit", Env: []string{"READY_HEAP_SIZE_LIMIT"}, Group: Controls, Permission: Operator,
			Value: number(&s.ReadyHeapSizeLimit, 500_000, 1, billion),
			Usage: "hosts held ready in memory; of those over it only the name and the times are, and their URLs are on disk"},

		{Name: "governor-enabled", Env: []string{"GOVERNOR_ENABLED"}, Group: Governor, Permission: Operator,
			Value: boolValue{&s.GovernorEnabled, true}, Usage: "shrink the workers while commits are slow"},
		{Name: "throttle-threshold-ms", Env: []string{"THROTTLE_THRESHOLD_MS"}, Group: Governor, Permission: Operator,
			Value: number(&s.ThrottleThresholdMS, 500, 1, dayMS),
			Usage: "commit latency above which workers shrink, in milliseconds"},
		{Name: "unthrottle-threshold-ms", Env: []string{"UNTHROTTLE_THRESHOLD_MS"}, Group: Governor,
			Permission: Operator, Value: number(&s.UnthrottleThresholdMS, 100, 1, dayMS),
			Usage: "commit latency below which they grow back, in milliseconds"},

		{Name: "per-ip", Group: Pace, Permission: OwnHost, Value: boolValue{&s.PerIP, true},
			Usage: "hosts that have the same IP address share a limit: 8 fetches under way at once and 10 starts per " +
				"second (own-site: off)"},
		{Name: "base-delay-ms", Env: []string{"BASE_DELAY_MS"}, Group: Pace, Permission: Tenant,
			Value: number(&s.BaseDelayMS, 0, 0, dayMS),
			Usage: "raises the delay of any profile to at least this, in milliseconds"},
		{Name: "max-adaptive-delay-secs", Env: []string{"MAX_ADAPTIVE_DELAY_SECS"}, Group: Pace, Permission: OwnHost,
			Value: number(&s.MaxAdaptiveDelaySecs, 60, 1, daySecs), Free: atLeast(60),
			Usage: "largest delay that refusals can teach, in seconds"},
		{Name: "adaptive-step-ms", Env: []string{"ADAPTIVE_STEP_MS"}, Group: Pace, Permission: OwnHost,
			Value: number(&s.AdaptiveStepMS, 1000, 1, dayMS),
			Usage: "what one refusal adds to the learned delay and one probe takes off, in milliseconds"},
		{Name: "probe-after-successes", Env: []string{"PROBE_AFTER_SUCCESSES"}, Group: Pace, Permission: OwnHost,
			Value: number(&s.ProbeAfterSuccesses, 20, 1, 60_000), Free: atLeast(20),
			Usage: "successes in a row after which a shorter delay is tried"},
		{Name: "max-retries", Env: []string{"MAX_RETRIES"}, Group: Pace, Permission: OwnHost,
			Value: number(&s.MaxRetries, 3, 0, 250), Free: between(0, 3),
			Usage: "further tries of a URL that was refused or failed"},
		{Name: "failure-threshold", Group: Pace, Permission: OwnHost, Value: number(&s.FailureThreshold, 20, 0, 65_535),
			Free: between(1, 20), Usage: "URL failures in a row that abandon a domain (0 is off)"},
		{Name: "cancel-on-throttle", Group: Pace, Permission: Tenant, Value: boolValue{p: &s.CancelOnThrottle},
			Usage: "abandon a domain after 20 refusals in a row at the largest delay"},
		{Name: "retry-crashed", Group: Pace, PerRun: true, Permission: Admin, Value: boolValue{p: &s.RetryCrashed},
			Usage: "resume: try pages and sitemaps again, each alone, that were given up because the process ended " +
				"while they were read (outcome crashed)"},

		{Name: "max-urls", Flags: []string{"max-pages"}, Env: []string{"MAX_PAGES"}, Group: Limits, Permission: Tenant,
			Value: number(&s.MaxURLs, 0, 0, trillion),
			Usage: "pages to fetch in all runs of the crawl together (0 is no limit)"},
		{Name: "max-urls-per-host", Group: Limits, Permission: Tenant, Value: number(&s.MaxURLsPerHost, 0, 0, trillion),
			Usage: "pages to fetch of one host (0 is no limit)"},
		{Name: "max-depth", Group: Limits, Permission: Tenant, Value: number(&s.MaxDepth, -1, -1, 60000),
			Usage: "how many links a URL may be away from a start page or from a URL that a sitemap or an index " +
				"names; 0 is the start pages alone, without sitemaps and indexes (-1 is no limit)"},
		{Name: "duration", Group: Limits, EnvMinutes: "MAX_SCAN_TIME_MINUTES", Permission: Tenant,
			Value: number(&s.Duration, 0, 0, 3650*day),
			Usage: "wall time of a run; 'resume' counts anew, unlike max-urls, and a server counts all runs (0 is no " +
				"limit)"},
		{Name: "grace", Group: Limits, Permission: Operator, Value: number(&s.Grace, 2*time.Second, 0, day),
			Usage: "how long fetches under way may go on after an interrupt"},

		{Name: "robots-strict", Group: Robots, Permission: Tenant, Value: boolValue{p: &s.RobotsStrict},
			Usage: "treat a robots.txt that cannot be fetched as disallowing everything"},
		{Name: "ignore-robots", Group: Robots, Permission: OwnHost, Value: boolValue{p: &s.IgnoreRobots},
			Usage: "do not ask for robots.txt at all"},

		{Name: "timeout", Group: Fetching, Permission: Admin,
			Value: number(&s.Timeout, 20*time.Second, time.Millisecond, day), Free: between(1, 120),
			Usage: "time for one whole fetch"},
		{Name: "user-agent", Env: []string{"USER_AGENT"}, Group: Fetching, Permission: Tenant,
			Value: stringValue{p: &s.UserAgent, usual: fetch.DefaultUserAgent, check: checkUserAgent},
			Usage: "User-Agent header; its first word is the name that robots.txt is asked for"},
		{Name: "header", Group: Fetching, Permission: Tenant, Hide: hideHeader,
			Value: listValue{p: &s.Headers, most: 100, check: checkHeader},
			Usage: "extra request header 'Name: value'; one that may be a credential goes to the origins of the " +
				"start URLs only (repeatable)"},
		{Name: "header-to", Group: Fetching, Permission: Tenant,
			Value: listValue{p: &s.HeaderTo, most: 1000, check: checkOrigin},
			Usage: "another origin that gets every header, such as https://api.example.com or *.example.com " +
				"(repeatable)"},
		{Name: "proxy", Group: Fetching, Permission: Admin,
			Value: stringValue{p: &s.Proxy, check: readBy(fetch.ParseProxy), form: formURL},
			Usage: "proxy URL (http, https or socks5)"},
		{Name: "resolve", Group: Fetching, Permission: Admin,
			Value: listValue{p: &s.Resolve, most: 1000, check: readBy(fetch.ParseResolve)},
			Usage: "HOST:PORT:ADDR[:PORT], dial ADDR for HOST:PORT; * matches any (repeatable)"},
		{Name: "allow-private", Group: Fetching, Permission: Admin, Value: boolValue{p: &s.AllowPrivate},
			Usage: "allow private, loopback and link-local addresses"},
		{Name: "http2", Group: Fetching, Permission: Operator, Value: boolValue{&s.HTTP2, true},
			Usage: "use HTTP/2 where the server does"},
		{Name: "warc", Group: Fetching, Permission: Tenant, Value: boolValue{p: &s.WARC},
			Usage: "archive every request and its answer, also of robots.txt and sitemaps, in WARC files (folder " +
				"warc of " +
				"the data directory)"},
		{Name: "max-body-size", Group: Fetching, Permission: Admin, Value: number(&s.MaxBodySize, 10<<20, 1, 1<<40),
			Free: between(1, 10<<20), Usage: "largest page after decompression"},

		{Name: "ca-file", Group: Access, Permission: Operator, Local: true,
			Value: stringValue{p: &s.CAFile, form: formFile},
			Usage: "PEM file with certificates of authorities that are trusted besides the system's"},
		{Name: "client-cert", Group: Access, Permission: Operator, Local: true,
			Value: stringValue{p: &s.ClientCert, form: formFile},
			Usage: "PEM file with a client certificate and its key, or CERT,KEY; shown to the origins of the start " +
				"URLs and of header-to only"},
		{Name: "basic-auth", Group: Access, Permission: Tenant, Local: true, Hide: hideUser,
			Value: listValue{p: &s.BasicAuth, most: 1000, check: checkBasicAuth, files: true},
			Usage: "USER:PASSWORD@HOST, or @FILE with one on each line; sent to that origin only. HOST without a " +
				"scheme is that of the start URL, else https (repeatable)"},
		{Name: "cookie", Group: Access, Permission: Tenant, Local: true, Hide: hideCookies,
			Value: listValue{p: &s.Cookie, most: 1000, check: readBy(fetch.ParseCookies), files: true},
			Usage: "NAME=VALUE, or @FILE with one on each line; sent to the origins of the start URLs only " +
				"(repeatable)"},
		{Name: "cookie-file", Group: Access, Permission: Operator, Local: true,
			Value: stringValue{p: &s.CookieFile, form: formFile},
			Usage: "file with cookies in the Netscape format, as curl, wget and browser extensions write it; each is " +
				"sent to the hosts and paths that the file says"},
		{Name: "cookies", Group: Access, Permission: Tenant, Value: boolValue{p: &s.Cookies},
			Usage: "keep the cookies that answers set, and send them as a browser does, for this run"},
		{Name: "login", Group: Access, Permission: Operator,
			Value: stringValue{p: &s.Login, check: checkLogin, form: formURL},
			Usage: "page with a login form, which is filled in and sent before each run; its cookies are kept as " +
				"with cookies"},
		{Name: "login-data", Group: Access, Permission: Operator, Local: true,
			Value: stringValue{p: &s.LoginData, form: formFile},
			Usage: "file with the fields of the login form, NAME=VALUE on each line"},
		{Name: "insecure", Group: Access, Permission: Admin, Value: boolValue{p: &s.Insecure},
			Usage: "do not check the certificates of servers: anyone on the way can read and change what is sent"},

		{Name: "scope", Group: Scope, Permission: Tenant,
			Value: stringValue{p: &s.Scope, usual: "domain", form: formName,
				choices: []string{"host", "domain", "subdomains", "prefix", "any"}},
			Usage: "which found URLs belong to the crawl: host, domain, subdomains, prefix or any"},
		{Name: "include", Group: Scope, Permission: Tenant,
			Value: listValue{p: &s.Include, most: maxPatterns, check: checkRegexp},
			Usage: "only URLs that match this regular expression (repeatable)"},
		{Name: "exclude", Group: Scope, Permission: Tenant,
			Value: listValue{p: &s.Exclude, most: maxPatterns, check: checkRegexp},
			Usage: "no URLs that match this regular expression (repeatable)"},
		{Name: "skip-extensions", Group: Scope, Permission: Tenant,
			Value: listValue{p: &s.SkipExtensions, split: true, most: 1000},
			Usage: "path extensions that are not followed, comma separated"},
		{Name: "only-hosts", Group: Scope, Permission: Tenant,
			Value: listValue{p: &s.OnlyHosts, split: true, most: maxOnlyHosts, check: checkHostPattern},
			Usage: "no other hosts than these and those of the start URLs, such as www.example.com or *.example.com, " +
				"comma separated"},
		{Name: "ignore-params", Group: Scope, Permission: Tenant, Fixed: true,
			Value: listValue{p: &s.IgnoreParams, usual: ignoredParams(), split: true, most: 1000, words: true,
				check: weburl.CheckParam},
			Usage: "query parameters that are removed from every URL, comma separated: names, or beginnings such as " +
				"utm_*; default stands for this list, and none removes no parameter"},
		{Name: "only-params", Group: Scope, Permission: Tenant, Fixed: true,
			Value: listValue{p: &s.OnlyParams, split: true, most: 1000, check: weburl.CheckParam},
			Usage: "remove all other query parameters from every URL, also from links to other sites, comma separated"},
		{Name: "follow-nofollow", Group: Scope, Permission: Tenant, Value: boolValue{p: &s.FollowNofollow},
			Usage: "follow links marked nofollow"},
		{Name: "structured-links", Group: Scope, Permission: Tenant, Value: boolValue{p: &s.StructuredLinks},
			Usage: "URLs in JSON-LD and __NEXT_DATA__ count as links"},
		{Name: "images", Group: Scope, Permission: Tenant, Value: boolValue{p: &s.Images},
			Usage: "record the images of pages, and list them in XML sitemaps"},
		{Name: "extract", Group: Scope, Permission: Tenant,
			Value: listValue{p: &s.Extract, most: 100, check: readBy(parser.ParseExtractor)},
			Usage: "name=CSS-SELECTOR[@attr], recorded as extracted.name, which is also a column of sitemap.csv " +
				"(repeatable)"},
		{Name: "traps", Group: Scope, Permission: Tenant, Value: boolValue{&s.Traps, true},
			Usage: "recognise URLs of which a site makes endlessly many, and do not fetch them; one of more than " +
				"2,048 bytes is never fetched"},

		{Name: "seeding-strategy", Flags: []string{"seeding"}, Group: Seeding, Permission: Tenant,
			Value: listValue{p: &s.SeedingStrategy, usual: []string{"sitemap"}, split: true, most: 16,
				check: oneOf(seedings())},
			Usage: "where more URLs come from: " + strings.Join(seedings(), ", ") + ", or a comma list"},
		{Name: "ct-base-url", Group: Seeding, Permission: Admin,
			Value: stringValue{p: &s.CTBaseURL, usual: "https://crt.sh", check: checkURL, form: formURL},
			Usage: "address of the certificate transparency search"},
		{Name: "commoncrawl-base-url", Group: Seeding, Permission: Admin,
			Value: stringValue{p: &s.CommonCrawlBaseURL, usual: "https://index.commoncrawl.org",
				check: checkURL, form: formURL},
			Usage: "address of the Common Crawl index"},
		{Name: "since", Group: Seeding, Permission: Tenant,
			Value: stringValue{p: &s.Since, check: readBy(ParseDate), form: "date"},
			Usage: "skip sitemap entries older than this date (YYYY-MM-DD or RFC 3339)"},

		{Name: "base-url", Group: Output, Permission: Tenant,
			Value: stringValue{p: &s.BaseURL, check: checkBase, form: formURL},
			Usage: "where the XML sitemaps will be served from; names the parts in the index"},
		{Name: "sitemap-name", Group: Output, Permission: Tenant,
			Value: stringValue{p: &s.SitemapName, usual: sitemap.DefaultName, check: sitemap.CheckName,
				form: formName},
			Usage: "name of the XML sitemaps, without .xml; the names of parts begin with it"},
		{Name: "sitemap-split", Group: Output, Permission: Tenant,
			Value: stringValue{p: &s.SitemapSplit, usual: "host", form: formName, choices: []string{"host", "path"}},
			Usage: "which pages have XML sitemaps of their own, under one index: host, those of each host of " +
				"several; path, also those of each first directory of their paths"},
		{Name: "sitemap-video", Group: Output, Permission: Tenant, Value: boolValue{p: &s.SitemapVideo},
			Usage: "list the films in XML sitemaps that pages name by og:video, with image, title and description"},
		{Name: "sitemap-news", Group: Output, Permission: Tenant, Value: boolValue{p: &s.SitemapNews},
			Usage: "list pages as news in XML sitemaps whose article:published_time is in the last two days, with " +
				"publication (og:site_name), language and title"},
		{Name: "gzip", Group: Output, Permission: Tenant, Value: boolValue{p: &s.Gzip},
			Usage: "compress the XML sitemaps"},
		{Name: "links", Group: Output, Permission: Tenant, Value: boolValue{p: &s.Links},
			Usage: "record every link, and write links.jsonl"},
		{Name: "check-external", Group: Output, Permission: Tenant, Value: boolValue{p: &s.CheckExternal},
			Usage: "ask for each link that the scope leaves out whether it works, with one HEAD request per target, " +
				"and report broken ones; implies --links"},
		{Name: "check-assets", Group: Output, Permission: Tenant, Value: boolValue{p: &s.CheckAssets},
			Usage: "ask for each image, script and other file that pages load, and each link that --skip-extensions " +
				"leaves out, with one HEAD request, and report broken and large ones; implies --links"},
		{Name: "check-fragments", Group: Output, Permission: Tenant, Value: boolValue{p: &s.CheckFragments},
			Usage: "report links such as /page#part whose page has no element of that name; implies --links"},
		{Name: "max-checks", Group: Output, Permission: Admin, Value: number(&s.MaxChecks, 100_000, 1, 1_000_000),
			Free: between(1, 100_000), Usage: "most URLs that are only checked, beside --max-urls"},
		{Name: "near-duplicates", Group: Output, Permission: Tenant, Value: boolValue{p: &s.NearDuplicates},
			Usage: "compare the texts of pages, and report those that are almost the same"},
		{Name: "check-soft-404", Group: Output, Permission: Tenant, Value: boolValue{p: &s.CheckSoft404},
			Usage: "ask each origin once for a page that does not exist, and report pages with the same text; off by " +
				"default, since it costs one request per origin"},
		{Name: "csv", Group: Output, Permission: Tenant, Value: boolValue{p: &s.CSV}, Usage: "write sitemap.csv too"},
		{Name: "parquet", Group: Output, Permission: Tenant, Value: boolValue{p: &s.Parquet},
			Usage: "write pages.parquet too: the fields of sitemap.jsonl as a table with types, for databases, and " +
				"problems.parquet; with links also links.parquet"},
		{Name: "hreflang", Group: Output, Permission: Tenant, Value: boolValue{p: &s.Hreflang},
			Usage: "list language alternates in XML sitemaps"},
		{Name: "xml-types", Group: Output, Permission: Tenant,
			Value: listValue{p: &s.XMLTypes, usual: []string{"text/html", "application/xhtml+xml"},
				split: true, most: 1000},
			Usage: "content types that XML sitemaps may list, comma separated"},
		{Name: "exclude-from-sitemap", Group: Output, Permission: Tenant,
			Value: listValue{p: &s.ExcludeFromSitemap, most: maxPatterns, check: checkRegexp},
			Usage: "do not list pages in XML sitemaps whose URL matches this regular expression; they are crawled " +
				"and recorded (repeatable)"},
		{Name: "changefreq", Group: Output, Permission: Tenant,
			Value: listValue{p: &s.Changefreq, most: maxPatterns, check: checkRule(sitemap.CheckFrequency)},
			Usage: "EXPRESSION=weekly: the changefreq that XML sitemaps give to pages whose URL matches, one of " +
				"always, " +
				"hourly, daily, weekly, monthly, yearly and never; the first match counts (repeatable)"},
		{Name: "priority", Group: Output, Permission: Tenant,
			Value: listValue{p: &s.Priority, most: maxPatterns, check: checkRule(sitemap.CheckPriority)},
			Usage: "EXPRESSION=0.8: the priority that XML sitemaps give to pages whose URL matches, 0.0 to 1.0; the " +
				"first " +
				"match counts (repeatable)"},

		{Name: "shards", Group: Engine, PerRun: true, Permission: Operator,
			Value: number(&s.Shards, defaultShards(), 1, 256), Usage: "shards of the frontier"},
		{Name: "save-interval", Group: Engine, Permission: Operator,
			Value: number(&s.SaveInterval, 300*time.Second, time.Millisecond, 365*day),
			Usage: "time between checkpoints"},

		{Name: "log-format", Group: Seeing, PerRun: true, Permission: Operator,
			Value: stringValue{p: &s.LogFormat, usual: "text", form: formName,
				choices: []string{"text", "json"}},
			Usage: "text or json"},
		{Name: "log-level", Group: Seeing, PerRun: true, Permission: Operator,
			Value: stringValue{p: &s.LogLevel, usual: "info", form: formName,
				choices: []string{"debug", "info", "warn", "error"}},
			Usage: "debug, info, warn or error"},
		{Name: "log-file", Group: Seeing, PerRun: true, Permission: Operator, Value: stringValue{p: &s.LogFile},
			Usage: "file for the log, and nothing on standard error; the default is mapwright.log in the data " +
				"directory, and standard error where there is no live view"},
		{Name: "no-progress", Group: Seeing, PerRun: true, Permission: Operator, Value: boolValue{p: &s.NoProgress},
			Usage: "no live view on a terminal"},
		{Name: "metrics-addr", Group: Seeing, PerRun: true, Permission: Operator,
			Value: stringValue{p: &s.MetricsAddr, check: checkAddress},
			Usage: "serve /metrics, /status, /healthz and pprof on this address"},
		{Name: "metric-export-interval-secs", Env: []string{"METRIC_EXPORT_INTERVAL_SECS"}, Group: Seeing,
			Permission: Operator, Value: number(&s.MetricExportIntervalSecs, 60, 0, 365*daySecs),
			Usage: "seconds between lines of metrics.jsonl (0 is off)"},
	}
}

// defaultShards is one per CPU, within what Table allows.
func defaultShards() int { return min(runtime.GOMAXPROCS(0), 256) }

// ignoredParams are parameters by which advertisers, newsletters and statistics follow visitors from site to site. No
// page needs them.
func ignoredParams() []string {
	return []string{"utm_*", "mtm_*", "fbclid", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source",
		"gad_campaignid",
		"srsltid", "msclkid", "yclid", "ysclid", "twclid", "ttclid", "li_fat_id", "igshid", "mc_cid", "mc_eid",
		"mkt_tok",
		"_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsCtaTracking", "vero_id", "_ga", "_gl"}
}
