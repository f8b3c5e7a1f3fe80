package testweb

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a test against a server inside a synctest bubble. get fetches a URI of
// host 0, reads it all and returns the status, or 0.
func bubble(t *testing.T, cfg Config, f func(t *testing.T, s *Server, get func(uri string) int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := StartOn(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		n := newNaive(s, 1)
		defer n.close()
		f(t, s, func(uri string) int {
			req, err := http.NewRequest(http.MethodGet, string(s.web.appendOrigin(nil, 0))+uri, nil)
			if err != nil {
				t.Error(err)
				return 0
			}
			a, err := n.roundTrip(t.Context(), req.URL)
			if err != nil {
				return 0
			}
			return a.status
		})
	})
}

// atOnce runs n requests side by side and returns their statuses and times.
func atOnce(n int, get func() int) (statuses map[int]int, times []time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	statuses = make(map[int]int)
	start := time.Now()
	for range n {
		wg.Go(func() {
			status := get()
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
			times = append(times, time.Since(start))
		})
	}
	wg.Wait()
	slices.Sort(times)
	return statuses, times
}

func TestGaps(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Server, get func(string) int) {
		check := func(gap, pageGap time.Duration) {
			t.Helper()
			if b := s.HostStats(0); b.LeastGap != gap || b.LeastPageGap != pageGap {
				t.Errorf("least gaps %v and %v, want %v and %v", b.LeastGap, b.LeastPageGap, gap, pageGap)
			}
		}
		check(NoGap, NoGap)
		get("/robots.txt")
		check(NoGap, NoGap)
		time.Sleep(700 * time.Millisecond)
		get("/")
		check(700*time.Millisecond, NoGap)
		time.Sleep(900 * time.Millisecond)
		get("/d1/p1.html")
		check(700*time.Millisecond, 900*time.Millisecond)
		time.Sleep(time.Millisecond)
		get("/sitemap.xml")
		check(time.Millisecond, 900*time.Millisecond)
		get("/d2/p2.html")
		check(0, time.Millisecond)
	})
}

func TestInFlight(t *testing.T) {
	cfg := Config{Hosts: 2, Faults: On("0", Slow{Delay: time.Second})}
	bubble(t, cfg, func(t *testing.T, s *Server, get func(string) int) {
		statuses, times := atOnce(7, func() int { return get("/") })
		if statuses[200] != 7 || times[0] != time.Second || times[6] != time.Second {
			t.Errorf("statuses %v after %v, want 7 answers after 1s", statuses, times)
		}
		if b := s.HostStats(0); b.MostInFlight != 7 || b.Connections != 7 || b.Duplicates.Count != 6 {
			t.Errorf("%d in flight, %d connections, %d duplicates, want 7, 7, 6", b.MostInFlight, b.Connections,
				b.Duplicates.Count)
		}
		if b := s.Stats(); b.MostInFlight != 7 || b.Connections != 7 || b.Requests != 7 {
			t.Errorf("in all %d in flight, %d connections, %d requests, want 7 each", b.MostInFlight, b.Connections,
				b.Requests)
		}
		for range 3 { // one after the other is never two at once
			get("/")
		}
		s.Reset()
		get("/")
		if b := s.HostStats(0); b.MostInFlight != 1 || b.Duplicates.Count != 0 || b.Requests != 1 {
			t.Errorf("after a reset %+v", b)
		}
	})
}

func TestSamples(t *testing.T) {
	cfg := Config{Faults: OnAll(Disallow{}, NoFollow{}, CalendarTrap{}, Hang{})}
	bubble(t, cfg, func(t *testing.T, s *Server, get func(string) int) {
		for _, uri := range []string{
			"/d1/p1.html", "/robots.txt", "/d2/p2.html", "/d2/p2.html", "/d2/p2.html", "/private/1", "/report.cgi",
			"/private/open/0", "/nofollow/0", "/static/site.css", "/calendar/2026/01", "/calendar/2031/07/10",
			"/d2/p3.html", "/d2/p2.html?x", "/D2/p2.html", "/d10/p10.html", "/d05/p5.html", "/favicon.ico",
		} {
			get(uri)
		}
		b := s.HostStats(0)
		for _, m := range []struct {
			name string
			got  Samples
			want []string
		}{
			{"before robots", b.BeforeRobots, []string{"/d1/p1.html"}},
			{"duplicates", b.Duplicates, []string{"/d2/p2.html", "/d2/p2.html"}},
			{"disallowed", b.Disallowed, []string{"/private/1", "/report.cgi"}},
			{"baits", b.Baits, []string{"/nofollow/0", "/static/site.css"}},
			{"traps", b.Traps, []string{"/calendar/2026/01", "/calendar/2031/07/10"}},
			{"unknown", b.Unknown, []string{"/d2/p3.html", "/d2/p2.html?x", "/D2/p2.html", "/d10/p10.html",
				"/d05/p5.html", "/favicon.ico"}},
		} {
			if m.got.Count != len(m.want) || !slices.Equal(m.got.URIs, m.want) {
				t.Errorf("%s: %d %q, want %q", m.name, m.got.Count, m.got.URIs, m.want)
			}
		}
		if want := map[int]int{200: 12, 404: 6}; !maps.Equal(b.Status, want) {
			t.Errorf("statuses %v, want %v", b.Status, want)
		}
	})
}

func TestEarly(t *testing.T) {
	cfg := Config{Grace: 100 * time.Millisecond,
		Faults: OnAll(RefuseFirst{Answer: Answer{RetryAfter: 10 * time.Second}})}
	bubble(t, cfg, func(t *testing.T, s *Server, get func(string) int) {
		begin := time.Now()
		get("/") // refused: rest until 10 s
		time.Sleep(99 * time.Millisecond)
		get("/robots.txt") // may have been on its way
		time.Sleep(time.Millisecond)
		get("/robots.txt") // too early, whatever it is for
		time.Sleep(9*time.Second + 899*time.Millisecond)
		get("/") // 1 ms too early
		if b := s.HostStats(0); b.Early.Count != 2 {
			t.Errorf("early: %d %q, want 2", b.Early.Count, b.Early.URIs)
		}
		time.Sleep(time.Millisecond)
		get("/d1/p1.html") // at last, but refused in its turn
		b := s.HostStats(0)
		if b.Early.Count != 2 || b.Refused != 2 {
			t.Errorf("early %d, refused %d, want 2 and 2", b.Early.Count, b.Refused)
		}
		want := []Refusal{
			{At: begin, Status: 429, Until: begin.Add(10 * time.Second), Next: begin.Add(99 * time.Millisecond)},
			{At: begin.Add(10 * time.Second), Status: 429, Until: begin.Add(20 * time.Second)},
		}
		same := func(a, b Refusal) bool {
			return a.At.Equal(b.At) && a.Status == b.Status && a.Until.Equal(b.Until) && a.Next.Equal(b.Next)
		}
		if !slices.EqualFunc(b.Refusals, want, same) {
			t.Errorf("refusals %+v, want %+v", b.Refusals, want)
		}
	})
}

func TestOverRate(t *testing.T) {
	fault := OverRate{PerSecond: 10, Burst: 3}
	bubble(t, Config{Faults: OnAll(fault)}, func(t *testing.T, s *Server, get func(string) int) {
		for range 50 { // exactly at the rate
			if status := get("/"); status != 200 {
				t.Fatalf("refused at the rate: %d", status)
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute) // the bucket does not overflow
		var got []int
		for range 5 {
			got = append(got, get("/"))
		}
		if want := []int{200, 200, 200, 429, 429}; !slices.Equal(got, want) {
			t.Errorf("a burst got %v, want %v", got, want)
		}
	})
}

func TestOverConcurrency(t *testing.T) {
	cfg := Config{Faults: OnAll(OverConcurrency{Max: 2}, Slow{Delay: time.Second})}
	bubble(t, cfg, func(t *testing.T, s *Server, get func(string) int) {
		statuses, _ := atOnce(5, func() int { return get("/") })
		if want := map[int]int{200: 2, 429: 3}; !maps.Equal(statuses, want) {
			t.Errorf("five at once got %v, want %v", statuses, want)
		}
		if b := s.HostStats(0); !maps.Equal(b.Status, statuses) {
			t.Errorf("statistics %v, client %v", b.Status, statuses)
		}
	})
}

func TestCapacity(t *testing.T) {
	fault := Capacity{Workers: 4, Service: 50 * time.Millisecond}
	bubble(t, Config{Faults: OnAll(fault)}, func(t *testing.T, s *Server, get func(string) int) {
		for _, load := range []int{1, 4, 5, 8, 40} {
			_, times := atOnce(load, func() int { return get("/") })
			for i, d := range times {
				if want := time.Duration(i/4+1) * 50 * time.Millisecond; d != want {
					t.Errorf("%d at once: answer %d after %v, want %v", load, i, d, want)
				}
			}
		}
	})
	fault.Queue = 4
	bubble(t, Config{Faults: OnAll(fault)}, func(t *testing.T, s *Server, get func(string) int) {
		statuses, _ := atOnce(20, func() int { return get("/") })
		if want := map[int]int{200: 8, 503: 12}; !maps.Equal(statuses, want) {
			t.Errorf("twenty at once got %v, want %v", statuses, want)
		}
	})
}

func TestSlowAnswers(t *testing.T) {
	drip := Drip{Chunk: 100, Interval: 200 * time.Millisecond, Size: 1000}
	cfg := Config{Faults: OnAll(Hang{For: 3 * time.Second}, drip)}
	bubble(t, cfg, func(t *testing.T, s *Server, get func(string) int) {
		for uri, want := range map[string]time.Duration{"/": 0, "/hang/0": 3 * time.Second,
			"/drip/0": 1800 * time.Millisecond} {
			start := time.Now()
			if status := get(uri); status != 200 || time.Since(start) != want {
				t.Errorf("%s: %d after %v, want 200 after %v", uri, status, time.Since(start), want)
			}
		}
	})
	cfg = Config{Faults: OnAll(Slow{Delay: time.Second, Jitter: time.Second})}
	bubble(t, cfg, func(t *testing.T, s *Server, get func(string) int) {
		seen := make(map[time.Duration]bool)
		for _, uri := range []string{"/", "/d1/p1.html", "/d2/p2.html", "/"} {
			start := time.Now()
			get(uri)
			d := time.Since(start)
			seen[d] = true
			if d < time.Second || d > 2*time.Second {
				t.Errorf("%s after %v, want 1s to 2s", uri, d)
			}
		}
		if len(seen) != 3 {
			t.Errorf("jitter gave %d delays for 3 URLs", len(seen))
		}
	})
}

// TestClientLeaves checks that a client that gives up is not in flight any more.
func TestClientLeaves(t *testing.T) {
	for _, fault := range []Fault{Hang{}, Drip{}, Robots{Hang: true}, Slow{Delay: time.Hour}} {
		t.Run(fault.Kind(), func(t *testing.T) {
			uri := map[string]string{"hang": "/hang/0", "drip": "/drip/0", "robots": "/robots.txt",
				"slow": "/"}[fault.Kind()]
			synctest.Test(t, func(t *testing.T) {
				s, err := StartOn(Config{Faults: OnAll(fault)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for range 3 {
					nc, err := s.Dial(t.Context(), "tcp", "h0.test:80")
					if err != nil {
						t.Fatal(err)
					}
					if _, err := nc.Write([]byte("GET " + uri + " HTTP/1.1\r\nHost: h0.test\r\n\r\n")); err != nil {
						t.Fatal(err)
					}
					if uri == "/drip/0" {
						nc.Read(make([]byte, 4096))
					}
					time.Sleep(2 * time.Second)
					if s.inflight.Load() != 1 {
						t.Errorf("%d in flight, want 1", s.inflight.Load())
					}
					nc.Close()
					synctest.Wait()
				}
				if b := s.HostStats(0); b.MostInFlight != 1 || b.Aborted != 3 || s.inflight.Load() != 0 {
					t.Errorf("most in flight %d, aborted %d, now in flight %d", b.MostInFlight, b.Aborted,
						s.inflight.Load())
				}
			})
		})
	}
}
