package results

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// The checker itself finds what is wrong.
func TestSchemaChecker(t *testing.T) {
	t.Parallel()
	s := e2e.ReadSchema(t)
	const good = `{"schema_version":1,"url":"http://x.test/","depth":0,"source":"start","discovered_at":"2026-03-01T12:00:00.000Z","outcome":"pending","indexable":false,"indexable_reason":"not_fetched","generation":0,"first_seen_at":"2026-03-01T12:00:00.000Z"}`
	if err := s.CheckLine([]byte(good)); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{
		{`"schema_version":1`, `"schema_version":2`}, {`"http://x.test/"`, `"http://x.test"`},
		{`"http://x.test/"`, `"http://x.test/#a"`}, {`"depth":0`, `"depth":-1`}, {`"depth":0`, `"depth":0.5`},
		{`"start"`, `"begin"`}, {`00.000Z`, `00Z`}, {`"pending"`, `"ok"`}, {`"pending"`, `"waiting"`},
		{`"not_fetched"`, `"status"`}, {`,"indexable_reason":"not_fetched"`, ``},
		{`"indexable":false`, `"indexable":true`}, {`"depth":0,`, ``}, {`"depth":0`, `"depth":"0"`},
		{`"depth":0`, `"depth":0,"colour":"red"`}, {`"depth":0`, `"depth":0,"status_code":200`},
		{`"generation":0`, `"generation":-1`}, {`"generation":0,`, ``},
		{`"generation":0`, `"generation":0,"change":"new"`}, {`"generation":0`, `"generation":0,"stale":0`},
		{`"depth":0`, `"depth":0,"title":""`}, {`"depth":0`, `"depth":0,"images":[]`},
		{`"depth":0`, `"depth":0,"images":["x"]`}, {`"depth":0`, `"depth":0,"extracted":{"a":["one"]}`},
	} {
		if err := s.CheckLine([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%s instead of %s is accepted", change[1], change[0])
		}
	}
	if err := json.Unmarshal([]byte(`{"maxItems": 3}`), &e2e.Schema{}); err == nil {
		t.Error("a keyword that is not checked is accepted")
	}
}
