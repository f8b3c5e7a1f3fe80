package frontier

import (
	"errors"
	"testing"
	"testing/synctest"
)

func TestCrawlOfTwoPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := New(Options{}, NewMemStore())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		seed, _ := ParseLink("http://a.example/")
		if n, err := f.Add(t.Context(), []Link{seed, seed}); n != 1 || err != nil {
			t.Fatalf("Add = %d, %v", n, err)
		}
		var got []string
		for {
			l, err := f.Next(t.Context())
			if errors.Is(err, ErrDrained) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			l.Started()
			r := Result{Class: ClassOK, Finish: "ok", Links: []Link{{URL: "http://a.example/2", Depth: l.Link().Depth + 1}}}
			if l.Kind() == KindRobots {
				r = Result{Class: ClassOK, RobotsUntil: l.leased.AddDate(0, 0, 1)}
			}
			if _, err := l.Done(r); err != nil {
				t.Fatal(err)
			}
			got = append(got, l.Link().URL)
		}
		if len(got) != 3 {
			t.Errorf("leased %q", got)
		}
	})
}
