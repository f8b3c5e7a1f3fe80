package monitor

import (
	"fmt"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/words"
)

// A crawl is said to wait in two cases. Nothing is in flight, and nothing has moved for quietAfter, which is longer
// than any usual delay. Or something is in flight, and nothing came of it for stuckAfter, which is longer than a
// healthy server takes.
const (
	quietAfter = 2 * time.Second
	stuckAfter = 5 * time.Second
)

// waitingReason says why nothing moves, or "" if something does.
func waitingReason(f *Figures, fs *frontier.Stats, idle time.Duration) string {
	if f.PauseReason != "" {
		return fmt.Sprintf("this machine fails, not the hosts (%s); trying again in %s", f.PauseReason,
			words.Span(f.PauseLeft))
	}
	if f.Cluster != nil && f.Cluster.Away >= 1 {
		return fmt.Sprintf("paused: the engine of the cluster cannot be reached for %s",
			words.Span(time.Duration(f.Cluster.Away*float64(time.Second))))
	}
	switch {
	case f.Phase == Queueing:
		return f.Note
	case f.Phase != Crawling:
		return ""
	case fs.Leased > 0 && idle < stuckAfter, fs.Leased == 0 && idle < quietAfter:
		return ""
	case fs.Leased > 0:
		return fmt.Sprintf("%s under way, and nothing has come for %s", words.Count(fs.Leased, "request"),
			words.Span(idle))
	case fs.Pending == 0 && fs.Checks > 0:
		return fmt.Sprintf("%s to be checked: %s", words.Count(fs.Checks, "link is", "links are"), hostReasons(fs))
	case fs.Pending == 0 && f.Cluster != nil:
		return idleReason(f.Cluster)
	case fs.Pending == 0:
		return "nothing is queued; sitemaps or other sources are still being read"
	}
	why := hostReasons(fs)
	switch {
	case fs.Next >= 100*time.Millisecond:
		why += "; the next request in " + words.Span(fs.Next)
	case fs.Next >= 0:
		why += "; the next request is due"
	}
	return fmt.Sprintf("%s: %s", words.Count(fs.Pending, "URL waits", "URLs wait"), why)
}

// idleReason says why a machine of several has nothing queued.
func idleReason(c *Cluster) string {
	switch {
	case c.Replaying > 0:
		return fmt.Sprintf("reading the logs of %s, %s left", words.Count(int64(c.Replaying), "partition"),
			words.Count(int64(c.RowsLeft), "row"))
	case c.Unowned > 0:
		return fmt.Sprintf("%s no machine; they are taken over when the one before has been silent for long enough",
			words.Count(int64(c.Unowned), "partition has", "partitions have"))
	case c.Partitions == 0:
		return "this machine has no partitions yet; the others hand its share over"
	case c.Machines > 1:
		return "nothing is queued on this machine; the others have the rest of the crawl"
	}
	return "nothing is queued; start URLs or other sources are still being read"
}

// hostReasons says what the hosts with something pending wait for, and how many of them.
func hostReasons(fs *frontier.Stats) string {
	var parts []string
	for _, k := range []struct {
		why       string
		one, more string
	}{
		{"rest", "host rests after a refusal", "hosts rest after refusals"},
		{"backoff", "host backs off after a failure", "hosts back off after failures"},
		{"retry", "host has only URLs that wait for their next try",
			"hosts have only URLs that wait for their next try"},
		{"delay", "host waits for its delay", "hosts wait for their delay"},
		{"address", "host waits because its IP address gets as many requests as it may (--per-ip)",
			"hosts wait because their IP address gets as many requests as it may (--per-ip)"},
		{"robots.txt", "host waits for its robots.txt", "hosts wait for their robots.txt"},
		{"robots.txt slot", "host waits until fewer robots.txt are being fetched",
			"hosts wait until fewer robots.txt are being fetched"},
		{"loading", "host's URLs are being read from disk", "hosts' URLs are being read from disk"},
		{"page limit", "host waits for the page limit", "hosts wait for the page limit"},
		{"host page limit", "host has had all its pages", "hosts have had all their pages"},
		{"level", "host waits until its depth is opened", "hosts wait until their depth is opened"},
		{"blocked", "host is blocked", "hosts are blocked"},
		{"abandoned", "host is abandoned", "hosts are abandoned"},
		{"other crawl", "host is asked by another crawl of this process",
			"hosts are asked by other crawls of this process"},
		{"parked", "host is parked on disk", "hosts are parked on disk"},
	} {
		if n := fs.Hosts[k.why]; n > 0 {
			parts = append(parts, words.Count(n, k.one, k.more))
		}
	}
	if len(parts) == 0 {
		return "no host may be asked yet"
	}
	return strings.Join(parts, ", ")
}
