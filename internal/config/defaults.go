package config

import (
	"time"

	"github.com/mapwright/mapwright/internal/web/fetch"
)

// Defaults are the values of a profile without any other layer. An unknown profile gets those of polite.
func Defaults(p Profile) *Settings {
	s := &Settings{
		Profile:                   p,
		MaxWorkers:                512,
		MaxInflightPerHost:        2,
		GlobalFrontierSizeLimit:   5_000_000,
		MinDelayMS:                200,
		MaxDelayMS:                500,
		MaxHostBackoffSecs:        3600,
		MaxHostFailures:           10,
		BloomCapacity:             10_000_000,
		BloomFPRate:               0.01,
		ParseSemaphoreLimit:       128,
		RobotsFetchSemaphoreLimit: 64,
		FPCheckSemaphoreLimit:     512,
		ReadyHeapSizeLimit:        500_000,
		GovernorEnabled:           true,
		ThrottleThresholdMS:       500,
		UnthrottleThresholdMS:     100,
		MaxAdaptiveDelaySecs:      60,
		AdaptiveStepMS:            1000,
		ProbeAfterSuccesses:       20,
		MaxRetries:                3,
		FailureThreshold:          20,
		MaxDepth:                  -1,
		Grace:                     2 * time.Second,
		Timeout:                   20 * time.Second,
		UserAgent:                 fetch.DefaultUserAgent,
		HTTP2:                     true,
		MaxBodySize:               10 << 20,
		Scope:                     "domain",
		Traps:                     true,
		SeedingStrategy:           []string{"sitemap"},
		CTBaseURL:                 "https://crt.sh",
		CommonCrawlBaseURL:        "https://index.commoncrawl.org",
		XMLTypes:                  []string{"text/html", "application/xhtml+xml"},
		Shards:                    defaultShards(),
		SaveInterval:              300 * time.Second,
		LogFormat:                 "text",
		LogLevel:                  "info",
		MetricExportIntervalSecs:  60,
	}
	switch p {
	case OwnSite:
		s.MaxInflightPerHost = 150
		s.MinDelayMS, s.MaxDelayMS = 0, 0
	case Safe:
		s.MaxWorkers = safeWorkers
		s.MaxInflightPerHost = safeInflight
		s.MinDelayMS, s.MaxDelayMS = safeMinDelayMS, safeMaxDelayMS
		s.MaxURLs = SafePages
		s.Duration = SafeDuration
	}
	return s
}
