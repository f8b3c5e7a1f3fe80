package apitest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// answering is a server that always answers the same.
type answering struct {
	status int
	kind   string
	body   string
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Content-Type": {a.kind}},
		Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// The transport finds answers and requests that the document does not allow.
func TestTransportFindsFaults(t *testing.T) {
	const plan = `{"items":[{"name":"a","safe":false,"max_priority":9}]}`
	for _, c := range []struct {
		method, path, body string
		answer             answering
		fault              string // "" means none
	}{
		{"GET", "/base/v1/plans", "", answering{200, "application/json", plan}, ""},
		{"GET", "/base/v1/plans", "", answering{200, "application/json", `{"items":[{"name":"a"}]}`}, "safe"},
		{"GET", "/base/v1/plans", "", answering{200, "application/json",
			`{"items":[{"name":"a","safe":false,"max_priority":9,"more":1}]}`}, "more"},
		{"GET", "/base/v1/plans", "", answering{200, "text/plain", "x"}, "answer"},
		{"GET", "/base/v1/plans", "", answering{201, "application/json", plan}, "answer"},
		{"GET", "/base/v1/nothing", "", answering{200, "application/json", "{}"}, "no such operation"},
		{"GET", "/base/v1/nothing", "", answering{404, "text/plain", "x"}, "no problem document"},
		{"PUT", "/base/v1/plans/a", `{"safe":1}`, answering{200, "application/json",
			`{"name":"a","safe":false,"max_priority":9}`}, "does not allow"},
		{"PUT", "/base/v1/plans/a", `{"safe":true}`, answering{200, "application/json",
			`{"name":"a","safe":false,"max_priority":9}`}, ""},
	} {
		transport, err := New("/base", c.answer)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://a.test"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		_, err = transport.RoundTrip(req)
		if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s %s answered with %d %s: %v, want %q", c.method, c.path, c.answer.status, c.answer.body, err,
				c.fault)
		}
	}
}
