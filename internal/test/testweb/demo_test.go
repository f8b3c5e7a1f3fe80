package testweb

import (
	"context"
	"net"
	"net/http"
	"testing"
)

func TestDemo(t *testing.T) {
	s := start(t, DemoConfig())
	if got := s.StartURLs(); len(got) != 1 || got[0] != "http://"+s.Addr()+"/" {
		t.Errorf("start URLs %q", got)
	}
	n := newNaive(s, 4)
	defer n.close()
	n.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn,
		error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	n.crawl(s.StartURLs())
	want, err := s.Expected(Crawl{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Compare(want, s.Traps(), n.results); err != nil {
		t.Error(err)
	}
	checkStats(t, s, n)
	outcomes, indexable := make(map[string]int), 0
	for e := range want {
		outcomes[e.Outcomes[0]]++
		if e.Indexable {
			indexable++
		}
	}
	if len(n.results) < 35 || len(n.results) > 50 || indexable < 25 || indexable == outcomes[OutcomeOK] {
		t.Errorf("%d URLs, %d indexable, %v", len(n.results), indexable, outcomes)
	}
	for _, o := range []string{OutcomeOK, OutcomeHTTPError, OutcomeRedirect, OutcomeBlockedByRobots} {
		if outcomes[o] == 0 {
			t.Errorf("the demo shows no %s", o)
		}
	}
}
