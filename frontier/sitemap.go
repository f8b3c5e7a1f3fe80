package frontier

import (
	"fmt"
	"slices"
)

// A sitemap is a URL given to AddSitemap.
type sitemap struct {
	url      URL
	at       int64 // clock; not before
	attempts uint8
}

// AddSitemap queues a sitemap to be fetched at its host's pace, before the host's
// pages. The crawl is not drained before it is done, unless its host is blocked.
// It is not recorded: a crawl that resumes adds it again, by the [SitemapFact] that
// the caller has committed.
func (f *Frontier) AddSitemap(u URL) error {
	if err := (&Link{URL: u}).check(); err != nil {
		return fmt.Errorf("add sitemap: %w", err)
	}
	_, name := originOf(u)
	id := f.hasher.HostID(u.Host())
	s := f.shardOf(id)
	s.lock()
	if !f.parts[id.Partition()].takesLinks() {
		s.mu.Unlock()
		return fmt.Errorf("add sitemap: %w", ErrPartitionClosed)
	}
	i, h := s.hostOf(id, name)
	s.sitemaps[i] = append(s.sitemaps[i], sitemap{url: u})
	h.sitemaps++
	s.touch(i)
	s.unlock()
	return nil
}

// SitemapKey is the key of a sitemap. It differs from the key of a page with the
// same URL.
func SitemapKey(h Hasher, u URL) Key {
	return h.KeyOf(h.HostID(u.Host()), append([]byte("sitemap "), u.String()...))
}

// firstSitemap is the first that is due, or else the one that is due first.
func firstSitemap(list []sitemap) (index int, at int64) {
	index, at = -1, never
	for j := range list {
		if list[j].at < at {
			index, at = j, list[j].at
			if at == 0 {
				break
			}
		}
	}
	return index, at
}

func (s *shard) leaseSitemap(l *Lease, h *host, index int) {
	list := s.sitemaps[l.host]
	m := list[index]
	if list = slices.Delete(list, index, index+1); len(list) == 0 {
		delete(s.sitemaps, l.host)
	} else {
		s.sitemaps[l.host] = list
	}
	h.sitemaps--
	l.origin, _ = originOf(m.url)
	l.kind, l.url, l.attempts = KindSitemap, m.url, m.attempts
}

// returnSitemap puts a sitemap back.
func (s *shard) returnSitemap(l *Lease, h *host, at int64, attempts int) {
	s.sitemaps[l.host] = append(s.sitemaps[l.host], sitemap{url: l.url, at: at, attempts: uint8(min(attempts, 255))})
	h.sitemaps++
}
