package fetch

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

func TestSmoke(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<title>x</title>"))
	}))
	defer s.Close()
	c, err := New(Options{AllowHosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	u, err := urlnorm.Parse(s.URL + "/a|b?c")
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(context.Background(), Request{URL: u})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Close()
	t.Logf("%+v %s", res, res.Body)
}
