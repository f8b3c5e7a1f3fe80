package testweb

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestAdmin(t *testing.T) {
	s := start(t, Config{
		Hosts: 3, Pages: 20, CrossHost: 0.3, TLS: true, Log: true, AdminAddr: "127.0.0.1:0",
		Sitemaps: &Sitemaps{Orphans: 2}, Faults: On("1", CalendarTrap{}, NoFollow{}),
	})
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, "http://"+s.AdminAddr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	read := func(path string, v any) {
		t.Helper()
		status, body := ask("GET", path)
		if err := json.Unmarshal([]byte(body), v); err != nil || status != 200 {
			t.Errorf("%s: %d %q: %v", path, status, body, err)
		}
	}

	if _, err := talk(t, s, "GET / HTTP/1.1\r\nHost: h1.test\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	var stats Stats
	read("/stats", &stats)
	if want := s.Stats(); stats.Requests != 1 || !reflect.DeepEqual(stats.Hosts["h1.test"].Status,
		want.Hosts["h1.test"].Status) {
		t.Errorf("statistics %+v, want %+v", stats, want)
	}
	var one HostStats
	read("/stats?host=h1.test", &one)
	if one.Requests != 1 || one.LeastGap != NoGap {
		t.Errorf("statistics of one host: %+v", one)
	}
	var log []Request
	if read("/log", &log); len(log) != 1 || log[0].URL != "https://h1.test/" || log[0].Status != 301 {
		t.Errorf("log %+v", log)
	}
	var traps []Trap
	if read("/traps", &traps); !reflect.DeepEqual(traps, s.Traps()) || len(traps) != 1 ||
		traps[0].Prefix != "https://h1.test/calendar/" {
		t.Errorf("traps %+v", traps)
	}
	var usage Usage
	if read("/usage", &usage); usage.CPU <= 0 {
		t.Errorf("usage %+v", usage)
	}
	if _, body := ask("GET", "/start-urls"); body != strings.Join(s.StartURLs(), "\n")+"\n" {
		t.Errorf("start URLs %q", body)
	}
	if _, body := ask("GET", "/ca.pem"); body != string(s.Authority().PEM()) {
		t.Errorf("authority %q", body)
	}

	for query, c := range map[string]Crawl{
		"": {},
		"?start=https://h1.test/&scope=any&no_sitemaps=true&max_depth=2": {Starts: []string{"https://h1.test/"},
			Scope: "any", NoSitemaps: true, MaxDepth: 2},
		"?follow_nofollow=1&ignore_robots=1&robots_strict=1&body_limit=100": {FollowNofollow: true, IgnoreRobots: true,
			RobotsStrict: true, BodyLimit: 100},
		"?timeout=3s&max_retries=1&max_redirects=2": {Timeout: 3e9, MaxRetries: 1,
			MaxRedirects: 2},
	} {
		want := expected(t, s, c)
		_, body := ask("GET", "/expected"+query)
		got := make(map[string]Expectation)
		for d := json.NewDecoder(strings.NewReader(body)); d.More(); {
			var e Expectation
			if err := d.Decode(&e); err != nil {
				t.Fatal(err)
			}
			got[e.URL] = e
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %d expected, want %d", query, len(got), len(want))
		}
	}
	for _, query := range []string{"?scope=world", "?max_depth=x", "?depth=3", "?timeout=3"} {
		if status, _ := ask("GET", "/expected"+query); status != 400 {
			t.Errorf("%q: status %d", query, status)
		}
	}
	if _, body := ask("GET", "/generation"); body != "0\n" {
		t.Errorf("generation %q", body)
	}
	for _, query := range []string{"", "?n=x", "?n=251", "?n=1&at=noon"} {
		if status, _ := ask("POST", "/generation"+query); status != 400 || s.Generation() != 0 {
			t.Errorf("%q: status %d, generation %d", query, status, s.Generation())
		}
	}
	if status, body := ask("POST", "/generation?n=3&at=2026-01-02T03:04:05Z"); status != 200 || s.Generation() != 3 ||
		s.generation.Load().began[3].Year() != 2026 {
		t.Errorf("set the generation: %d %q, then %+v", status, body, s.generation.Load())
	}
	if status, body := ask("GET", "/recrawl?generations=0,1,3&scope=any"); status != 200 ||
		strings.Count(body, "\n") != len(expected(t, s, Crawl{Scope: "any"})) {
		t.Errorf("recrawl: %d with %d lines", status, strings.Count(body, "\n"))
	}
	for _, query := range []string{"", "?generations=0,x", "?generations=-1", "?generations=0&scope=world"} {
		if status, _ := ask("GET", "/recrawl"+query); status != 400 {
			t.Errorf("%q: status %d", query, status)
		}
	}
	if status, _ := ask("GET", "/stats?host=h9.test"); status != 404 {
		t.Errorf("statistics of no host: status %d", status)
	}
	if status, _ := ask("POST", "/reset"); status != 200 || s.Stats().Requests != 0 || len(s.Log()) != 0 {
		t.Errorf("reset: status %d, then %+v", status, s.Stats())
	}
}
