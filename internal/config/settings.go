package config

import (
	"slices"
	"time"

	"github.com/mapwright/mapwright/parser"
)

// Profile names a set of defaults.
type Profile string

// The profiles. Polite is the default; own-site is for owners of the server; safe has hard caps.
const (
	Polite  Profile = "polite"
	OwnSite Profile = "own-site"
	Safe    Profile = "safe"
)

// Profiles are the names that the profile setting takes.
func Profiles() []string { return []string{string(Polite), string(OwnSite), string(Safe)} }

// Settings are the effective values of one crawl. Table says what each means, its unit and its default.
type Settings struct {
	Profile Profile

	// The ten controls.
	MaxWorkers                int
	MaxInflightPerHost        int
	GlobalFrontierSizeLimit   int
	MinDelayMS                int
	MaxDelayMS                int
	MaxHostBackoffSecs        int
	MaxHostFailures           int
	BloomCapacity             int
	BloomFPRate               float64
	ParseSemaphoreLimit       int
	RobotsFetchSemaphoreLimit int
	FPCheckSemaphoreLimit     int
	ReadyHeapSizeLimit        int

	// The governor.
	GovernorEnabled       bool
	ThrottleThresholdMS   int
	UnthrottleThresholdMS int

	// Pace and retries.
	PerIP                bool
	BaseDelayMS          int
	MaxAdaptiveDelaySecs int
	AdaptiveStepMS       int
	ProbeAfterSuccesses  int
	MaxRetries           int
	FailureThreshold     int
	CancelOnThrottle     bool
	RetryCrashed         bool

	// Limits.
	MaxURLs        int
	RequestedURLs  int // safe profile only: max-urls as it was requested, before the cap; 0 if no number was requested
	MaxURLsPerHost int
	MaxDepth       int // -1 is no limit: 0 is the start pages alone
	Duration       time.Duration
	Grace          time.Duration

	// robots.txt.
	RobotsStrict bool
	IgnoreRobots bool

	// Fetching.
	Timeout      time.Duration
	UserAgent    string
	Headers      []string
	HeaderTo     []string
	Proxy        string
	Resolve      []string
	AllowPrivate bool
	HTTP2        bool
	MaxBodySize  int64
	WARC         bool

	// Access.
	CAFile     string
	ClientCert string
	BasicAuth  []string // items of the form @FILE are read by ReadItems, here and in Cookie
	Cookie     []string
	CookieFile string
	Cookies    bool // of answers are kept
	Login      string
	LoginData  string
	Insecure   bool

	// Scope and links.
	Scope           string
	Include         []string
	Exclude         []string
	SkipExtensions  []string
	OnlyHosts       []string // empty means any that the scope allows
	IgnoreParams    []string
	OnlyParams      []string // empty means any
	FollowNofollow  bool
	StructuredLinks bool
	Images          bool
	Extract         []string
	Traps           bool

	// Seeding.
	SeedingStrategy    []string
	CTBaseURL          string
	CommonCrawlBaseURL string
	Since              string

	// Output.
	BaseURL      string
	SitemapName  string // of the XML sitemaps
	SitemapSplit string // host or path
	SitemapVideo bool
	SitemapNews  bool
	Gzip         bool
	Links        bool
	// CheckExternal asks for the targets of links that are out of scope. MaxChecks is how many of them at most.
	CheckExternal bool
	MaxChecks     int
	// CheckAssets asks for the files that pages load.
	CheckAssets bool
	// CheckFragments looks whether fragments of links lead to an element of the page.
	CheckFragments bool
	// CheckSoft404 asks each origin with pages for one that does not exist.
	CheckSoft404 bool
	// NearDuplicates records a simhash of every page's text.
	NearDuplicates bool
	CSV            bool
	Parquet        bool
	Hreflang       bool
	XMLTypes       []string
	// ExcludeFromSitemap are expressions of pages that XML sitemaps do not list. Changefreq and Priority give pages of
	// an expression a value there.
	ExcludeFromSitemap, Changefreq, Priority []string

	// Memory, workers and other limits of the program itself.
	Shards       int
	SaveInterval time.Duration

	// Seeing it run.
	LogFormat                string
	LogLevel                 string
	LogFile                  string
	NoProgress               bool
	MetricsAddr              string
	MetricExportIntervalSecs int
}

// Seeds reports whether a source beside links may name URLs of the crawl. Such URLs have depth 0, like start pages.
// With a depth limit of 0, which means the start pages alone, no source may.
func (s *Settings) Seeds(source string) bool {
	return s.MaxDepth != 0 && (slices.Contains(s.SeedingStrategy, source) || slices.Contains(s.SeedingStrategy, "all"))
}

// ExtractNames are the names of the fields that --extract asks for, each once, in the order of the settings.
func (s *Settings) ExtractNames() (names []string) {
	for _, text := range s.Extract {
		if x, err := parser.ParseExtractor(text); err == nil && !slices.Contains(names, x.Name()) {
			names = append(names, x.Name())
		}
	}
	return names
}

// Checks reports whether URLs are only checked, beside the pages of the crawl.
func (s *Settings) Checks() bool { return s.CheckExternal || s.CheckAssets }

// RecordsLinks reports whether the links of pages are recorded: on demand, and if their targets are checked.
func (s *Settings) RecordsLinks() bool {
	return s.Links || s.Checks() || s.CheckFragments
}

// Defaults are the values of a profile without any other layer. An unknown profile gets those of polite.
func Defaults(p Profile) *Settings {
	s := &Settings{Profile: p}
	for _, e := range s.Table() {
		e.Value.reset()
	}
	switch p {
	case OwnSite:
		s.MaxInflightPerHost = 150
		s.MinDelayMS, s.MaxDelayMS = 0, 0
		s.PerIP = false
	case Safe:
		s.MaxWorkers = safeWorkers
		s.MaxInflightPerHost = safeInflight
		s.MinDelayMS, s.MaxDelayMS = safeMinDelayMS, safeMaxDelayMS
		s.MaxURLs = SafePages
		s.MaxChecks = SafePages
		s.Duration = SafeDuration
	}
	return s
}
