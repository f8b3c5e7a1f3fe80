package overlay

import (
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// A link stays as long as any record on its way names it.
func TestLinks(t *testing.T) {
	o := New()
	k, other := weburl.Key{Hi: 1, Lo: 7}, weburl.Key{Hi: 1, Lo: 8}
	o.AddLinks([]frontier.Link{{Key: k}})
	o.AddLinks([]frontier.Link{{Key: k}})
	o.RemoveLinks([]weburl.Key{k})
	if !o.HasLink(k) || o.HasLink(other) {
		t.Errorf("has the link %v, has another %v; want true, false", o.HasLink(k), o.HasLink(other))
	}
	o.RemoveLinks([]weburl.Key{k})
	if o.HasLink(k) {
		t.Error("a link is left that no record names")
	}
}

// A fact stays until the record that brought it last is in Badger.
func TestFacts(t *testing.T) {
	o := New()
	add := func(at frontier.Position, pages int64, body string) {
		o.AddFacts(at, &frontier.Record{
			Hosts:   []frontier.HostFact{{Host: 3, Pages: pages}},
			Origins: []frontier.OriginFact{{Origin: "http://a.example", Body: []byte(body)}},
		})
	}
	add(1, 10, "one")
	add(5, 11, "five")
	o.RemoveFacts(4)
	if f, ok := o.Host(3); !ok || f.Pages != 11 {
		t.Errorf("host: %+v, %v; want the fact of record 5", f, ok)
	}
	f, ok := o.Origin("http://a.example")
	if !ok || string(f.Body) != "five" {
		t.Errorf("origin: %+v, %v; want the fact of record 5", f, ok)
	}
	f.Body[0] = 'x'
	if f, _ := o.Origin("http://a.example"); string(f.Body) != "five" {
		t.Error("a caller can change the body that is kept")
	}
	o.RemoveFacts(5)
	if _, ok := o.Host(3); ok {
		t.Error("a fact is left whose record is in Badger")
	}
}
