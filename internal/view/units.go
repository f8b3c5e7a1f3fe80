package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"

	"github.com/dustin/go-humanize"
)

// rate writes a number per second, below 100 with one digit after the point.
func rate(perSecond float64) string {
	perSecond = finite(perSecond)
	if perSecond < 100 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return humanize.Comma(int64(perSecond + 0.5))
}

// finite limits a number to the range that this package can write: 0 to the seconds of a hundred years.
func finite(x float64) float64 {
	const most = 100 * 365 * 24 * 3600
	if !(x > 0) { // true for NaN too
		return 0
	}
	return min(x, most)
}

func size(bytes float64) string { return humanize.IBytes(uint64(max(0, bytes))) }

func percent(part float64) string { return fmt.Sprintf("%d %%", int(part*100)) }

func milliseconds(ms float64) string {
	d := time.Duration(finite(ms) * float64(time.Millisecond))
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond || d == 0:
		return d.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%.1fms", ms)
}

// toGo writes a time to come in its two largest units: an estimate is no more exact than that.
func toGo(seconds float64) string {
	d := time.Duration(finite(seconds) * float64(time.Second)).Round(time.Second)
	days, hours, minutes, secs := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case days >= 10:
		return fmt.Sprintf("%s d", humanize.Comma(int64(days)))
	case days > 0:
		return fmt.Sprintf("%d d %d h", days, hours)
	case hours > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%d min %d s", minutes, secs)
	}
	return fmt.Sprintf("%d s", secs)
}

// clock writes a time that has passed.
func clock(seconds float64) string {
	d := time.Duration(finite(seconds) * float64(time.Second))
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// startsOf names what is crawled.
func startsOf(l *monitor.Live) string {
	if len(l.StartURLs) == 0 {
		return ""
	}
	text := l.StartURLs[0]
	if n := l.StartURLCount - 1; n > 0 {
		text += " and " + humanize.Comma(int64(n)) + " more"
	}
	return strings.TrimSpace(text)
}
