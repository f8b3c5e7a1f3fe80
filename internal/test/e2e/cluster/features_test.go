//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/warctest"
)

// A featureSite is a web of sites behind a password, whose pages have links to other sites, files, parts of pages and
// query parameters. It counts requests.
type featureSite struct {
	*httptest.Server
	mu     sync.Mutex
	asked  map[string]int // guarded by mu; by method and URL
	faults []string       // guarded by mu
	// returned counts pages that were asked for with the cookie that the first page of the site sets. Guarded by mu.
	returned int
	open     chan struct{} // no page is answered before it is closed
}

const (
	featureHosts = 9
	// The secrets of a featureSite: what its users give, and what the site sets itself.
	passwordSecret, cookieSecret, sessionSecret = "passwordSecret", "cookieSecret", "sessionSecret"
)

func newFeatureSite(t *testing.T) *featureSite {
	s := &featureSite{asked: map[string]int{}, open: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *featureSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own := strings.HasPrefix(r.Host, "own")
	if own && r.URL.Path == "/" { // which is asked for again and again, unlike robots.txt
		select {
		case <-s.open:
		case <-r.Context().Done():
			return
		}
	}
	user, password, _ := r.BasicAuth()
	given, _ := r.Cookie("given")
	s.mu.Lock()
	s.asked[r.Method+" "+r.Host+r.URL.RequestURI()]++
	if !own && (user != "" || len(r.Cookies()) > 0) {
		s.faults = append(s.faults, "credentials were sent to "+r.Host)
	}
	if own && (user != "ann" || password != passwordSecret || given == nil || given.Value != cookieSecret) {
		s.faults = append(s.faults, "no credentials were sent to "+r.Host+r.URL.Path)
	}
	if session, _ := r.Cookie("session"); own && r.URL.Path == "/last" && session != nil {
		s.returned++
	}
	s.mu.Unlock()
	switch at := r.URL.Path; {
	case at == "/robots.txt" || strings.HasPrefix(at, "/sitemap"):
		http.NotFound(w, r)
	case own && at == "/":
		http.SetCookie(w, &http.Cookie{Name: "session", Value: sessionSecret})
		e2e.WritePage(w, "Start of "+r.Host, "/a?utm_source=x", "/a?sid=7&utm_source=y", "/a?id=1&sid=8", "/a#part",
			"/a#none", "http://ok.test/", "http://gone.test/", "http://friend-of-"+r.Host+"/", "/last")
		fmt.Fprint(w, `<img src="/small.png"><img src="http://files.test/large.png"><img src="http://files.test/no.png">`)
	case own && at == "/a":
		e2e.WritePage(w, "A page of "+r.Host, "/?utm_source=z", "http://ok.test/?utm_source=b")
		fmt.Fprint(w, `<p id=part>part</p>`)
	case own && at == "/last":
		e2e.WritePage(w, "Last page of "+r.Host)
	case at == "/large.png":
		w.Header().Set("Content-Length", "5000000")
	case at == "/no.png" || r.Host == "gone.test":
		http.NotFound(w, r)
	default:
		fmt.Fprint(w, "there is something")
	}
}

// flags are those of a crawl of the site with all features.
func (s *featureSite) flags(users string) []string {
	flags := append(patient(), "--scope", "host", "--profile", "own-site", "--resolve",
		"*:80:"+s.Listener.Addr().String(), "--check-external", "--check-assets", "--check-fragments",
		"--ignore-params", "default,sid", "--basic-auth", "@"+users, "--cookies", "--warc", "--parquet", "--csv",
		"--exclude-from-sitemap", "/last$")
	for h := range featureHosts {
		flags = append(flags, "--start-url", fmt.Sprintf("http://own%d.test/", h))
	}
	return flags
}

// Three machines make the same requests as one, and find the same, with every setting about links, files, parameters,
// access and archives. No secret is in the database, in a directory or in what the machines print.
func TestClusterFeatures(t *testing.T) {
	t.Parallel()
	users := ""
	for h := range featureHosts {
		users += fmt.Sprintf("ann:%s@http://own%d.test\n", passwordSecret, h)
	}
	users = e2e.Write(t, filepath.Join(t.TempDir(), "users.txt"), users)
	cookie := "MAPWRIGHT_COOKIE=given=" + cookieSecret

	one := newFeatureSite(t)
	close(one.open)
	dir := filepath.Join(t.TempDir(), "alone")
	got := e2e.Invocation{Args: append([]string{"crawl", "--data-dir", dir}, one.flags(users)...),
		Env: []string{cookie}}.Run(t)
	if got.Code != 0 {
		t.Fatalf("a crawl without a cluster ends with %d: %s", got.Code, got.Stderr)
	}

	web := newFeatureSite(t)
	f, _ := newFleet(t, nil, web.flags(users)...)
	f.env = []string{cookie}
	// A login that fails makes no crawl.
	other := newFeatureSite(t)
	fields := e2e.Write(t, filepath.Join(t.TempDir(), "login.txt"), "user=ann\n")
	f.refused(f.invoke("crawl", append([]string{"--data-dir", f.dir(8), "--login", "http://own0.test/last",
		"--login-data", fields}, other.flags(users)...)...), "not logged in", "http://own0.test/last")
	if got := f.look(); got.Code != 2 {
		t.Errorf("status ends with %d after a login that failed, want 2", got.Code)
	}
	f.create()
	// A machine must have the secret, and cannot have parameters of its own.
	f.env = nil
	f.refused(f.invoke("join", "--data-dir", f.dir(8)), "--cookie", "MAPWRIGHT_COOKIE", "not kept")
	f.refused(f.invoke("join", "--data-dir", f.dir(8), "--ignore-params", "none"), "--ignore-params",
		"cannot be given here")
	f.refused(f.invoke("resume", "--data-dir", f.dir(8), "--ignore-params", "none"), "--ignore-params",
		"which URLs are the same")
	// What the environment says about parameters does not count.
	f.env = []string{cookie, "MAPWRIGHT_IGNORE_PARAMS=none"}
	f.join(1)
	f.join(2)
	f.shares(f.machines[0], 3)
	close(web.open)
	rep := f.ends(0, "complete")
	for _, s := range []*featureSite{one, web} {
		if len(s.faults) > 0 {
			t.Errorf("%d requests with other credentials than they should have: %q", len(s.faults), s.faults[0])
		}
	}
	if !maps.Equal(web.asked, one.asked) {
		t.Errorf("three machines have made other requests than one:\n%v, want\n%v", web.asked, one.asked)
	}
	// A site that another machine takes over between its pages does not get its cookie back, so less can be said here.
	if one.returned != featureHosts || web.returned > featureHosts {
		t.Errorf("cookies of %d sites were sent back by one machine, and of %d by three; there are %d sites",
			one.returned, web.returned, featureHosts)
	}
	for _, check := range []string{"HEAD ok.test/", "HEAD friend-of-own1.test/", "HEAD files.test/large.png",
		"HEAD own3.test/small.png"} {
		if web.asked[check] != 1 {
			t.Errorf("%s: %d requests, want 1", check, web.asked[check])
		}
	}

	// The machine that has written the report and an export have the same files, with what one machine finds.
	out := t.TempDir()
	if got := f.invoke("export", "--output", out).Run(t); got.Code != 0 {
		t.Fatalf("export ends with %d: %s", got.Code, got.Stderr)
	}
	f.sameFiles(out, dir)
	sameCounts(t, rep, e2e.ReadReport(t, dir))
	f.hasArchives(dir)
	f.hasNoSecrets(out)
}

// refused wants a command to be refused. Redis is described first, in a line of its own.
func (f *fleet) refused(command e2e.Invocation, words ...string) {
	f.t.Helper()
	got := command.Run(f.t)
	if line, rest, _ := strings.Cut(got.Stderr, "\n"); strings.HasPrefix(line, "mapwright: Redis ") {
		got.Stderr = rest
	}
	e2e.Refused(f.t, got, words...)
}

// sameFiles compares an export with the files of the machine that wrote the report, and with those of a crawl of one
// machine.
func (f *fleet) sameFiles(out, alone string) {
	f.t.Helper()
	t := f.t
	reporter := ""
	for n := range f.machines {
		if e2e.Exists(t, f.dir(n), "report.json") {
			reporter = f.dir(n)
		}
	}
	for _, name := range []string{"sitemap.jsonl", "sitemap.csv", "sitemap.xml", "links.jsonl", "pages.parquet",
		"links.parquet"} {
		if e2e.Read(t, out, name) != e2e.Read(t, reporter, name) {
			t.Errorf("%s of an export differs from that of the machine that wrote the report", name)
		}
	}
	got, want := resultIn(t, out), resultIn(t, alone)
	got.same(t, &want)
	for _, name := range []string{"links.jsonl", "problems.jsonl"} {
		if got := e2e.Read(t, reporter, name); got != e2e.Read(t, alone, name) {
			t.Errorf("%s differs from that of one machine:\n%s\nwant\n%s", name, got, e2e.Read(t, alone, name))
		}
	}
	if xml := e2e.Read(t, out, "sitemap.xml"); strings.Contains(xml, "/last") || !strings.Contains(xml, "own0") {
		t.Errorf("sitemap.xml lists what --exclude-from-sitemap excludes: %s", xml)
	}
}

// hasArchives puts the archives of all machines into one directory, and compares them with those of one machine.
func (f *fleet) hasArchives(alone string) {
	f.t.Helper()
	t, all := f.t, f.t.TempDir()
	for n := range f.machines {
		files, err := filepath.Glob(filepath.Join(f.dir(n), "warc", "*"))
		if err != nil || len(files) == 0 {
			t.Errorf("machine %d has no archive: %v", n, err)
		}
		for _, path := range files {
			to := filepath.Join(all, filepath.Base(path))
			if err := os.Link(path, to); err != nil {
				t.Error(err)
			}
		}
	}
	count := func(dir string) map[string]int {
		counts := map[string]int{}
		for _, r := range warctest.ReadDir(t, dir) {
			if r.Type != "warcinfo" {
				counts[r.Type+" "+r.URL]++
			}
		}
		return counts
	}
	if got, want := count(all), count(filepath.Join(alone, "warc")); !maps.Equal(got, want) {
		t.Errorf("the archives of three machines have\n%v, want\n%v", got, want)
	}
}

// hasNoSecrets looks for the secrets in the database, in the directories of all machines and in what they printed.
func (f *fleet) hasNoSecrets(out string) {
	f.t.Helper()
	t := f.t
	look := func(where string, content []byte) {
		t.Helper()
		for _, secret := range []string{passwordSecret, cookieSecret, sessionSecret} {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s has %s", where, secret)
			}
		}
	}
	found := false
	f.eachValue(func(where string, content []byte) {
		look(where, content)
		found = found || bytes.Contains(content, []byte("Last page of own3.test"))
	})
	if !found {
		t.Error("the title of a page is not found in the database, so a secret would not be found either")
	}
	for _, root := range []string{f.dirs, out} {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			look(path, content)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	for n := range f.machines {
		if !e2e.Exists(t, f.dir(n), "warc") {
			continue
		}
		for _, r := range warctest.ReadDir(t, filepath.Join(f.dir(n), "warc")) {
			look("an archive", r.Block)
		}
	}
	for n, p := range f.machines {
		look(fmt.Sprint("what machine ", n, " prints"), []byte(p.Wait().Stdout+p.Err.String()))
	}
}

// eachValue calls do with each value in the fleet's database. Rows of logs are uncompressed.
func (f *fleet) eachValue(do func(where string, content []byte)) {
	f.t.Helper()
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer decoder.Close()
	each := func(where string, content []byte) {
		do(where, content)
		if plain, err := decoder.DecodeAll(content, nil); err == nil {
			do(where, plain)
		}
	}
	if isRedis() {
		f.database.redis.eachValue(f.t, each)
	} else {
		f.eachOfPostgres(each)
	}
}

func (f *fleet) eachOfPostgres(do func(where string, content []byte)) {
	f.t.Helper()
	ctx := f.t.Context()
	must := func(err error) {
		if f.t.Helper(); err != nil {
			f.t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(ctx, f.database.direct)
	must(err)
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)
	must(err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(err)
	for _, table := range tables {
		rows, err := conn.Query(ctx, `SELECT * FROM `+table)
		must(err)
		for rows.Next() {
			values, err := rows.Values()
			must(err)
			for i, v := range values {
				content, ok := v.([]byte)
				if !ok {
					content = fmt.Append(nil, v)
				}
				do(table+"."+rows.FieldDescriptions()[i].Name, content)
			}
		}
		must(rows.Err())
	}
}

// One address gets at most ten starts a second and eight requests at once from three machines together, though its hosts
// are in the partitions of all three. When a machine leaves and comes back, the others know that two seconds later.
// Only the URLs of the list are asked for.
func TestClusterPaceOfAddress(t *testing.T) {
	t.Parallel()
	const hosts = 60
	var (
		mu     sync.Mutex
		starts []time.Time         // guarded by mu
		under  int                 // guarded by mu
		most   int                 // guarded by mu
		others = map[string]bool{} // guarded by mu; paths
	)
	open := make(chan struct{}) // closed when the machines share the partitions: what was asked before does not count
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			mu.Lock()
			others[r.URL.Path] = true
			mu.Unlock()
			http.NotFound(w, r)
			return
		}
		select {
		case <-open:
			mu.Lock()
			starts = append(starts, time.Now())
			under++
			most = max(most, under)
			mu.Unlock()
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
			}
			mu.Lock()
			under--
			mu.Unlock()
		default:
			select {
			case <-open:
			case <-r.Context().Done():
			}
		}
		e2e.WritePage(w, r.Host, "/more", "http://p1.test/more")
	}))
	t.Cleanup(web.Close)
	flags := append(patient(), "--scope", "host", "--list", "--max-delay-ms", "0", "--min-delay-ms", "0",
		"--resolve", "*:80:"+web.Listener.Addr().String())
	for h := range hosts {
		flags = append(flags, "--start-url", fmt.Sprintf("http://p%d.test/", h))
	}
	f, _ := newFleet(t, nil, flags...)
	f.start(3)
	f.shares(f.machines[0], 3)
	opened := time.Now()
	close(open)
	f.machines[0].UntilEnded(func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(starts) >= hosts/6
	})
	f.machines[2].Signal(syscall.SIGTERM)
	f.machines[2].Wait()
	f.join(2)
	f.ends(0, "complete")
	f.refused(f.invoke("resume", "--data-dir", f.dir(0), "--check-external"), "further checks of links")
	mu.Lock()
	defer mu.Unlock()
	if delete(others, "/robots.txt"); len(others) > 0 {
		t.Errorf("the crawl of a list has asked for %v too", others)
	}
	took := starts[len(starts)-1].Sub(opened)
	t.Logf("%d requests in %v, at most %d at once", len(starts), took, most)
	// The first start of each session needs no gap. For two seconds two machines use a half each, and the third one third.
	// What is noted late makes the time longer, never shorter.
	allowed, atOnce := 4+7+int(took/(100*time.Millisecond)), 4+4+2
	if len(starts) > allowed || most > atOnce {
		t.Errorf("%d requests in %v, want at most %d; %d of them at once, want at most %d", len(starts), took, allowed,
			most, atOnce)
	}
	if len(starts) < hosts/2 {
		t.Errorf("only %d of %d pages were asked for by three machines", len(starts), hosts)
	}
}

// Each machine logs in itself, so that a site behind a form is read whichever machine works on it. What is filled in is
// not in the database.
func TestClusterLogin(t *testing.T) {
	t.Parallel()
	const hosts = 3
	var (
		mu     sync.Mutex
		logins int // guarded by mu
	)
	open := make(chan struct{}) // closed when the machines share the partitions
	s := e2e.NewMapSite(t, func(w http.ResponseWriter, r *http.Request) bool {
		session, _ := r.Cookie("session")
		switch {
		case !strings.HasPrefix(r.URL.Path, "/page") && r.URL.Path != "/login":
			return false
		case r.Method == http.MethodPost && r.FormValue("password") == passwordSecret:
			mu.Lock()
			logins++
			mu.Unlock()
			http.SetCookie(w, &http.Cookie{Name: "session", Value: sessionSecret, Domain: "example.com", Path: "/"})
			http.Redirect(w, r, "/page/welcome", http.StatusSeeOther)
		case r.URL.Path == "/login":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<form method=post action=/login><input name=user><input type=password name=password></form>`)
		case session == nil:
			http.Redirect(w, r, "http://example.com/login", http.StatusFound)
		case r.URL.Path == "/page":
			select {
			case <-open:
			case <-r.Context().Done():
			}
			e2e.WritePage(w, "Start", "/page/a", "/page/b")
		default:
			e2e.WritePage(w, letters(len(r.URL.Path))+r.URL.Path)
		}
		return true
	})
	fields := e2e.Write(t, filepath.Join(t.TempDir(), "login.txt"), "user=ann\npassword="+passwordSecret+"\n")
	flags := append(patient(), "--scope", "host", "--profile", "own-site", "--login", "http://example.com/login",
		"--login-data", fields, "--resolve", "*:80:"+s.Listener.Addr().String(), "--start-url",
		"http://example.com/page")
	for h := range hosts {
		flags = append(flags, "--start-url", fmt.Sprintf("http://s%d.example.com/page", h))
	}
	f, _ := newFleet(t, nil, flags...)
	f.start(2)
	f.shares(f.machines[0], 2)
	f.machines[0].Signal(syscall.SIGTERM)
	f.machines[0].Wait()
	f.shares(f.machines[1], 1) // which works on the site now
	close(open)
	f.join(0)
	f.ends(0, "complete")
	lines := f.export().lines
	for url, line := range lines {
		if line.Outcome != "ok" || line.StatusCode != http.StatusOK || strings.Contains(url, "login") {
			t.Errorf("%s is %s", url, line.Outcome)
		}
	}
	if want := 3 * (1 + hosts); len(lines) != want {
		t.Errorf("%d URLs are found, want %d", len(lines), want)
	}
	mu.Lock()
	defer mu.Unlock()
	if logins < 3 || logins > 4 {
		t.Errorf("%d logins, want one before the crawl is made and one of each session of a machine", logins)
	}
	f.eachValue(func(where string, content []byte) {
		if bytes.Contains(content, []byte(passwordSecret)) || bytes.Contains(content, []byte(sessionSecret)) {
			t.Errorf("%s has a secret", where)
		}
	})
}
