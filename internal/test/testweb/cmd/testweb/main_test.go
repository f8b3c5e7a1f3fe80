package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs the program until the test ends it by either of its two ends.
func serve(t *testing.T, stop string, args ...string) (ready, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, args, inR, outW, io.Discard)
		outW.CloseWithError(io.EOF)
		done <- err
	}()
	line, err := bufio.NewReader(outR).ReadBytes('\n')
	if err != nil {
		t.Fatalf("no address: %v, %v", err, <-done)
	}
	var r ready
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	return r, func() error {
		if stop == "stdin" {
			inW.Close()
			defer cancel()
		} else {
			cancel()
			defer inW.Close()
		}
		return <-done
	}
}

func get(t *testing.T, url, host string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRun(t *testing.T) {
	for _, stop := range []string{"stdin", "signal"} {
		t.Run(stop, func(t *testing.T) {
			r, end := serve(t, stop, "--hosts", "3", "--pages", "4", "--page-size", "5000", "--sitemap-orphans", "2",
				"--fault", "kind=status hosts=1 count=5")
			if r.StartURL != "http://h0.test/" || r.Resolve != "*:80:"+r.Addr || r.Hosts != 3 || r.PID != os.Getpid() {
				t.Errorf("%+v", r)
			}
			if page := get(t, "http://"+r.Addr+"/", "h2.test"); len(page) != 5000 {
				t.Errorf("page of %d bytes", len(page))
			}
			if got := strings.Count(get(t, "http://"+r.Admin+"/expected", ""), "\n"); got != 3*(4+2)+5 {
				t.Errorf("%d URLs expected", got)
			}
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.json")
	const config = `{"hosts": 7, "pages": 9, "faults": [{"kind": "slow", "delay": "1ms"}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"--pages", "11", "--config", file, "--keep", "--sitemap-gzip", "--fault", "kind=files",
		"--changes", "sometimes=1 rate=0.01", "--generation", "4", "--sitemap-last-mod", "all",
		"--sitemap-last-mod-from", "2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c := o.config
	if c.Hosts != 7 || c.Pages != 11 || len(c.Faults) != 2 || !o.keep || !c.Sitemaps.Gzip || c.AdminAddr == "" {
		t.Errorf("%+v", o)
	}
	if c.Changes == nil || *c.Changes != (testweb.Changes{Sometimes: 1, Rate: 0.01}) || c.Generation != 4 ||
		c.Sitemaps.LastMod != "all" || c.Sitemaps.LastModFrom != 2 {
		t.Errorf("%+v, changes %+v, sitemaps %+v", c, c.Changes, c.Sitemaps)
	}
	if o, err := parse([]string{"--demo"}, io.Discard); err != nil ||
		o.config.HostName != testweb.DemoConfig().HostName || o.config.AdminAddr == "" {
		t.Errorf("demo: %+v, %v", o, err)
	}
	for _, args := range [][]string{
		{"--hosts", "x"}, {"extra"}, {"--fault", "kind=none"}, {"--config", filepath.Join(t.TempDir(), "none")},
		{"--sitemap-orphans", "x"}, {"--changes", "never=1"}, {"--sitemap-last-mod-from", "x"}, {"--nothing"},
	} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	var help bytes.Buffer
	if _, err := parse([]string{"--help"}, &help); err == nil || !strings.Contains(help.String(), "redirect_loop") {
		t.Errorf("help: %v, %s", err, help.String())
	}
	if err := run(t.Context(), []string{"--hosts", "-1"}, strings.NewReader(""), io.Discard, io.Discard); err == nil {
		t.Error("a bad config is served")
	}
}
