package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// A finding is what doctor says of one part of the machine.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warning, fault, or unknown
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"` // what to change
}

// States of findings. A fault keeps a crawl from working; a warning makes it slower or smaller.
const (
	isOK      = "ok"
	isWarning = "warning"
	isFault   = "fault"
	isUnknown = "unknown"
)

func newDoctor(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "doctor [[--start-url] URL...]",
		Short: "Check the machine before a large crawl: files, disk, memory, names, clock, proxy",
		Long: "Check the machine before a large crawl, and say what to change. It takes the flags of the crawl. With " +
			"URLs it requests the robots.txt of each site, which checks the look-up of names, the connection, the " +
			"proxy and " +
			"the clock. It leaves nothing behind. The exit status is 1 if there is a fault.",
		Example: `  mapwright doctor
  mapwright doctor https://example.com/ --data-dir /srv/crawl --max-urls 5000000`,
	})
	starts := c.Flags().StringArrayP(config.StartURLName, "u", nil, "`URL`, domain, file of them, or - (repeatable)")
	c.addDataDir()
	c.addSettings()
	c.addJSON("print one JSON object per line")
	return c.does(func(args []string) error {
		loaded, err := c.load()
		var urls []datadir.Start
		var startsErr error
		if given := append(*starts, args...); len(given) > 0 {
			urls, startsErr = readStarts(given, c.in)
		}
		dir, dirErr := c.directory()
		if err := errors.Join(err, startsErr, dirErr); err != nil {
			return err
		}
		s := loaded.Settings
		all := []finding{checkFiles(s), checkDisk(dir, s), checkMemory(s)}
		all = append(all, checkProxy(c.Context(), s, c.environ)...)
		all = append(all, checkSites(c.Context(), s, urls)...)
		return c.printFindings(all)
	})
}

// printFindings writes the findings. Its error has the exit status.
func (c *command) printFindings(all []finding) error {
	faults := false
	t := newTable(c.out)
	for i := range all {
		f := &all[i]
		faults = faults || f.State == isFault
		if c.asJSON {
			if err := json.NewEncoder(c.out).Encode(f); err != nil {
				return err
			}
			continue
		}
		t.row(f.State, "%s: %s", f.Check, page.EscapeControls(oneLine(f.Detail)))
		if f.Advice != "" {
			t.row("", "→ %s", f.Advice)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if faults {
		return &exitError{exitFailed, nil}
	}
	return nil
}

// checkFiles compares the limit of open files with the workers.
func checkFiles(s *config.Settings) finding {
	f := finding{Check: "open files", State: isOK}
	sockets, err := fetch.SocketLimit()
	switch {
	case err != nil:
		f.State, f.Detail = isFault, err.Error() // which says what to do
	case sockets/2 < s.MaxWorkers:
		f.State, f.Detail = isWarning, fmt.Sprintf("the limit allows %d of %d workers", max(1, sockets/2), s.MaxWorkers)
		f.Advice = fmt.Sprintf("raise it, for example with 'ulimit -n %d', or set --max-workers",
			fetch.FilesFor(2*s.MaxWorkers))
	default:
		f.Detail = fmt.Sprintf("the limit allows %d workers", s.MaxWorkers)
	}
	return f
}

// Estimates of what a crawl needs; docs/tuning.md has them too.
const (
	diskOfURL   = 1 << 10   // bytes
	leastDisk   = 256 << 20 // which the store leaves free
	memoryOfURL = 100       // bytes of a queued URL
	baseMemory  = 512 << 20 // recent URLs, garbage
)

// checkDisk looks at the disk of the data directory, or of the directory in which it would be made.
func checkDisk(dir datadir.Dir, s *config.Settings) finding {
	f := finding{Check: "disk", State: isOK}
	at, err := filepath.Abs(string(dir))
	for err == nil {
		var info os.FileInfo
		if info, err = os.Stat(at); err == nil {
			if !info.IsDir() {
				err = fmt.Errorf("%s is not a directory", at)
			}
			break
		}
		if errors.Is(err, os.ErrNotExist) && at != filepath.Dir(at) {
			at, err = filepath.Dir(at), nil
		}
	}
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(at, ".mapwright-doctor-"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		f.State, f.Detail, f.Advice = isFault, err.Error(), "choose another --data-dir, or change its permissions"
		return f
	}
	free, err := disk.FreeBytes(at)
	if err != nil || free == math.MaxInt64 {
		f.State, f.Detail = isUnknown, "the free space of "+at+" is not known"
		return f
	}
	need := int64(leastDisk + s.PageCap()*diskOfURL)
	f.Detail = fmt.Sprintf("%s are free in %s, enough for about %s URLs", humanize.IBytes(uint64(free)), at,
		humanize.Comma(max(0, (free-leastDisk)/diskOfURL)))
	switch advice := "free some space, or choose another --data-dir"; {
	case free < leastDisk:
		f.State, f.Advice = isFault, advice
		f.Detail = fmt.Sprintf("%s are free in %s, and a crawl leaves %s free", humanize.IBytes(uint64(free)), at,
			humanize.IBytes(leastDisk))
	case free < need:
		f.State, f.Advice = isWarning, advice
	}
	return f
}

// checkMemory compares the memory that is available with what the limits of the crawl allow it to take.
func checkMemory(s *config.Settings) finding {
	f := finding{Check: "memory", State: isOK}
	urls := s.GlobalFrontierSizeLimit
	if most := s.PageCap(); most > 0 {
		urls = min(urls, most*10) // pages name more URLs than are fetched
	}
	need := uint64(baseMemory + urls*memoryOfURL + s.MaxWorkers<<20/4 + 2*s.BloomCapacity)
	have, ok := availableMemory()
	switch {
	case !ok:
		f.State, f.Detail = isUnknown, "the available memory is not known on this system; the crawl may take "+
			humanize.IBytes(need)
	case have < need:
		f.State, f.Detail = isWarning, fmt.Sprintf("%s are available, and the crawl may take about %s",
			humanize.IBytes(have), humanize.IBytes(need))
		f.Advice = "set --global-frontier-size-limit or --max-workers lower, for example 1000000 and 64; URLs over " +
			"the limit wait on disk"
	default:
		f.Detail = fmt.Sprintf("%s are available, and the crawl may take about %s", humanize.IBytes(have),
			humanize.IBytes(need))
	}
	return f
}

// availableMemory is the memory that a new process can use, by Linux: of the machine, or of its control group if that
// is less.
func availableMemory() (bytes uint64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "MemAvailable:"); found {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			bytes, ok = kib<<10, err == nil
		}
	}
	number := func(path string) (uint64, bool) {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // it is "max" if there is no limit
		return n, err == nil
	}
	limit, limited := number("/sys/fs/cgroup/memory.max")
	used, known := number("/sys/fs/cgroup/memory.current")
	if ok && limited && known {
		bytes = min(bytes, limit-min(limit, used))
	}
	return bytes, ok
}

// checkProxy connects to the proxy of the settings, and names variables of the environment that are not used.
func checkProxy(ctx context.Context, s *config.Settings, environ []string) (all []finding) {
	f := finding{Check: "proxy", State: isOK, Detail: "none is used"}
	if s.Proxy != "" {
		proxy, _ := fetch.ParseProxy(s.Proxy) // checked when the settings were loaded
		port := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
		address := net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), port))
		conn, err := (&net.Dialer{Timeout: s.Timeout}).DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		f.Detail = address + " takes connections"
		if err != nil {
			f.State, f.Detail, f.Advice = isFault, err.Error(), "start the proxy, or change --proxy"
		}
		return []finding{f}
	}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"} {
		if lookup(environ, name) != "" {
			f.State, f.Detail = isWarning, "the environment has "+name+", which Mapwright does not use"
			f.Advice = "give --proxy if the network needs one"
			break
		}
	}
	return []finding{f}
}

// maxSkew is how far the clock may be from that of a server. Certificates and the age of pages need a right clock.
const maxSkew = 2 * time.Minute

// checkSites requests the robots.txt of the start URLs.
func checkSites(ctx context.Context, s *config.Settings, starts []datadir.Start) (all []finding) {
	clock := finding{Check: "clock", State: isUnknown, Detail: "it is compared with that of a site: give a URL"}
	if len(starts) == 0 {
		return []finding{{Check: "network", State: isUnknown,
			Detail: "names and connections are checked with a site: give a URL"}, clock}
	}
	f, err := crawl.NewFetcher(s, starts)
	if err != nil {
		return []finding{{Check: "network", State: isFault, Detail: err.Error()}}
	}
	defer f.Close()
	seen := map[string]bool{}
	for _, start := range starts {
		if origin := start.URL.Origin(); !seen[origin] && len(seen) < maxSites {
			seen[origin] = true
			all = append(all, checkSite(ctx, f, start, &clock))
		}
	}
	if clock.State == isUnknown {
		clock.Detail = "no site gave its time"
	}
	return append(all, clock)
}

// maxSites is how many sites are asked.
const maxSites = 20

// checkSite requests the robots.txt of a site, and compares the clocks if it has an answer.
func checkSite(ctx context.Context, f *fetch.Client, start datadir.Start, clock *finding) finding {
	out := finding{Check: start.URL.Origin(), State: isOK}
	at, err := start.URL.Resolve(robotscache.Path)
	if err != nil {
		return finding{Check: out.Check, State: isFault, Detail: err.Error()}
	}
	resp, err := f.Do(ctx, fetch.Request{URL: at, Mode: fetch.Text})
	if err != nil {
		out.State, out.Detail = isFault, err.Error()
		switch fetch.KindOf(err) {
		case fetch.DNSError:
			out.Advice = "check the name and the resolver of this machine (/etc/resolv.conf), or give --resolve"
		case fetch.TLSError:
			out.Advice = "check the certificate of the site and the clock of this machine, or give --ca-file"
		case fetch.RefusedAddress:
			out.Advice = "the address is not public: --allow-private allows it"
		default:
			out.Advice = "check the network, a firewall, and whether a proxy is needed (--proxy)"
		}
		return out
	}
	defer resp.Close()
	t := &resp.Timings
	out.Detail = fmt.Sprintf("robots.txt answers %d; name %s, connection %s, TLS %s, answer %s", resp.Status,
		t.DNS.Round(time.Millisecond), t.Connect.Round(time.Millisecond), t.TLS.Round(time.Millisecond),
		t.Wait.Round(time.Millisecond))
	if resp.Status == http.StatusTooManyRequests || resp.Status == http.StatusForbidden {
		out.State, out.Advice = isWarning, "the site refuses requests of this machine or of this --user-agent"
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil || clock.State != isUnknown {
		return out
	}
	skew := time.Since(date)
	clock.State, clock.Detail = isOK, "it agrees with that of "+start.URL.Host()
	if skew.Abs() > maxSkew {
		clock.State, clock.Advice = isWarning, "set the clock, for example with an NTP service"
		clock.Detail = fmt.Sprintf("it is %s %s that of %s", skew.Abs().Round(time.Second),
			map[bool]string{true: "ahead of", false: "behind"}[skew > 0], start.URL.Host())
	}
	return out
}
