package frontier

import (
	"fmt"
	"slices"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A sitemap is a URL given to AddSitemap.
type sitemap struct {
	url      string
	tag      any
	at       int64 // clock; not before
	attempts uint8
}

// AddSitemap queues a sitemap to be fetched at its host's pace, before the host's
// pages. The crawl is not drained before it is done, unless its host is blocked.
// It is not recorded: a crawl that resumes adds it again. The tag comes back with
// the lease.
func (f *Frontier) AddSitemap(url string, tag any) error {
	u, err := f.canonical(url)
	if err != nil {
		return fmt.Errorf("add sitemap: %w", err)
	}
	_, name := originOf(u)
	id := f.hasher.HostID(u.Host())
	s := f.shardOf(id)
	s.lock()
	i, h := s.hostOf(id, name)
	s.sitemaps[i] = append(s.sitemaps[i], sitemap{url: url, tag: tag})
	h.sitemaps++
	s.touch(i)
	s.unlock()
	return nil
}

func (f *Frontier) canonical(url string) (urlnorm.URL, error) {
	u, ok := urlnorm.FromCanonical(url)
	if !ok || len(url) > MaxURL || len(u.Host()) > MaxHost {
		return u, &LinkError{URL: url}
	}
	return u, nil
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
	u, _ := urlnorm.FromCanonical(m.url)
	l.origin, _ = originOf(u)
	l.originLen = len(u.Origin())
	l.kind, l.url, l.tag, l.attempts = KindSitemap, m.url, m.tag, m.attempts
}

// returnSitemap puts a sitemap back.
func (s *shard) returnSitemap(l *Lease, h *host, at int64, attempts int) {
	s.sitemaps[l.host] = append(s.sitemaps[l.host], sitemap{url: l.url, tag: l.tag, at: at, attempts: uint8(min(attempts, 255))})
	h.sitemaps++
}
