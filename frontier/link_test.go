package frontier

import "testing"

// A queue of one priority holds sitemaps, checks or pages, and below PriorityDepth only pages of depth 0.
func TestSettlePriority(t *testing.T) {
	for _, c := range []struct {
		link Link
		want uint8
	}{
		{Link{Priority: PriorityStart}, PriorityStart}, {Link{Priority: 13}, 13},
		{Link{Priority: PriorityCheck}, PriorityDepth}, {Link{Sitemap: true, Check: true}, PriorityCheck},
		{Link{Priority: PrioritySitemap}, PriorityDepth},
		{Link{Priority: PriorityDepth}, PriorityDepth}, {Link{Priority: 255}, PriorityDepth},
		{Link{Depth: 1, Priority: PriorityStart}, PriorityDepth + 1}, {Link{Depth: 65535}, 255},
		{Link{Sitemap: true}, PrioritySitemap}, {Link{Sitemap: true, Depth: 7, Priority: 255}, PrioritySitemap},
	} {
		c.link.settlePriority()
		if c.link.Priority != c.want {
			t.Errorf("priority %d of %+v, want %d", c.link.Priority, c.link, c.want)
		}
	}
}
