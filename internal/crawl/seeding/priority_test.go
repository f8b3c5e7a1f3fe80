package seeding

import (
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/web/sitemap"
)

func TestEntryPriority(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for _, c := range []struct {
		weight float64
		age    time.Duration // 0: no lastmod
		want   uint8
	}{
		{-1, 0, 6}, {0.5, 0, 6}, {1, 0, 1}, {0, 0, 10},
		{-1, day, 5}, {-1, 30 * day, 6}, {-1, 1000 * day, 7},
		{1, day, 1}, {0, 1000 * day, 10}, {1, -day, 1},
	} {
		e := &sitemap.Entry{Priority: c.weight}
		if c.age != 0 {
			e.LastMod = now.Add(-c.age)
		}
		if got := entryPriority(e, now); got != c.want {
			t.Errorf("weight %v, age %v: %d, want %d", c.weight, c.age, got, c.want)
		}
	}
}
