package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

func TestLives(t *testing.T) {
	dir := t.TempDir() + "/s"
	ctx := context.Background()
	n := 0
	for life := range 3 {
		s, err := Open(dir, Options{MinFree: Off})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", s.Recovery())
		h := s.Hasher()
		for i := range 100 {
			var r Record
			for j := range 10 {
				u, _ := urlnorm.Parse(fmt.Sprintf("https://host%d.example/%d/%d/%d", i%7, life, i, j))
				r.Links = append(r.Links, Link{Key: h.Key(u), URL: u.String(), Parent: "https://host.example/", DiscoveredAt: time.Now(), Priority: uint8(j % 3)})
			}
			n += 10
			if _, err := s.Commit(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		got := 0
		for p, err := range s.Pages(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			_ = p
			got++
		}
		if got != n {
			t.Fatalf("got %d, want %d", got, n)
		}
		got = 0
		for b, err := range s.PendingHosts(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			l, _, err := s.Pending(ctx, b.Host, Cursor{}, 1e6)
			if err != nil {
				t.Fatal(err)
			}
			got += len(l)
			t.Log(b, len(l))
		}
		if got != n {
			t.Fatalf("pending %d, want %d", got, n)
		}
		t.Logf("%+v", s.Stats())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
