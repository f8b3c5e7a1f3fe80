package bench

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/net/html"
)

// naiveWorkers is what the naive crawler does best with on two cores.
const naiveWorkers = 64

// Naive is the crawler that a Go programmer writes in a hundred lines: net/http, x/net/html's tokenizer, net/url and a
// map. It remembers nothing on disk, knows no robots.txt and has no delays.
func Naive(addr, start string) error {
	n := &naive{client: newClient(addr, naiveWorkers), seen: map[string]bool{start: true}, queue: []string{start}}
	n.wake = sync.NewCond(&n.mu)
	var workers sync.WaitGroup
	for range naiveWorkers {
		workers.Go(n.work)
	}
	workers.Wait()
	return nil
}

type naive struct {
	client *http.Client

	mu    sync.Mutex
	wake  *sync.Cond
	seen  map[string]bool // guarded by mu
	queue []string        // guarded by mu
	busy  int             // guarded by mu
}

func (n *naive) work() {
	for {
		n.mu.Lock()
		for len(n.queue) == 0 && n.busy > 0 {
			n.wake.Wait()
		}
		if len(n.queue) == 0 {
			n.mu.Unlock()
			n.wake.Broadcast()
			return
		}
		u := n.queue[0]
		n.queue = n.queue[1:]
		n.busy++
		n.mu.Unlock()

		links := n.fetch(u)

		n.mu.Lock()
		n.busy--
		for _, l := range links {
			if !n.seen[l] {
				n.seen[l] = true
				n.queue = append(n.queue, l)
			}
		}
		n.mu.Unlock()
		n.wake.Broadcast()
	}
}

func (n *naive) fetch(text string) (links []string) {
	base, err := url.Parse(text)
	if err != nil {
		return nil
	}
	resp, err := n.client.Get(text)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	tokens := html.NewTokenizer(resp.Body)
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			return links
		case html.StartTagToken, html.SelfClosingTagToken:
			token := tokens.Token()
			if token.Data != "a" {
				continue
			}
			for _, a := range token.Attr {
				if a.Key != "href" {
					continue
				}
				u, err := base.Parse(a.Val)
				if err != nil || !strings.HasPrefix(u.Scheme, "http") {
					continue
				}
				u.Fragment, u.RawPath, u.Host = "", "", strings.ToLower(u.Host)
				links = append(links, u.String())
			}
		}
	}
}

// dialTo connects to one address whatever was asked for.
func dialTo(addr string) func(ctx context.Context, network, _ string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
}
