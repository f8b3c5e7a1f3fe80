package fetch

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestBodiesHeldAtOnce holds the answers of one connection until the last has come: none may
// lie in memory that a later one was read into.
func TestBodiesHeldAtOnce(t *testing.T) {
	const n = 8
	bodyOf := func(path string) string { return strings.Repeat("<p>"+path+"</p>", 200) }
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		body := bodyOf(r.URL.Path)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body)
	})
	c := newClient(t, Options{AllowPrivate: true})
	var held []*Response
	for range 2 { // the second time in memory that was given back
		for i := range n {
			res, err := get(t, c, fmt.Sprintf("%s/%d", s.URL, i))
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, res)
		}
		for i, res := range held {
			want := bodyOf(fmt.Sprintf("/%d", i))
			if string(res.Body) != want || res.DecodedLength != int64(len(want)) || res.WireBytes != int64(len(want)) {
				t.Errorf("answer %d: %d bytes, %d of them decoded and %d on the wire, want %d", i, len(res.Body), res.DecodedLength, res.WireBytes, len(want))
			}
			res.Close()
		}
		held = held[:0]
	}
	if n := c.Stats().Dials; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
