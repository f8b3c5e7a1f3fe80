package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/test/apitest"
)

// hostileValues are JSON values that a field may be given by a client that errs or means harm.
func hostileValues() []string {
	values := []string{"null", "true", "-1", "1.5", "1e400", "9223372036854775808", "[]", "{}", "[null]", `{"":null}`,
		`"\ud800"`, `"\u0000"`, "[" + strings.Repeat(`"x",`, 300) + `"x"]`}
	for _, text := range []string{"", "../../service.db", "http://[::1", strings.Repeat("x", 5000)} {
		values = append(values, must(json.Marshal(text)), must(json.Marshal([]string{text})))
	}
	return values
}

// No value in any field of any request makes the server fail: it answers with a problem document, or accepts what the
// document allows, and goes on.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *service.Options) { o.MaxCrawls = 1 })
	f.web.Hold(0) // the first crawl keeps the one slot, so that no other sends a request
	key := f.key("default", service.ScopeAdmin)
	id := f.submit(f.client(key), f.submission(0, nil))
	f.until(f.client(key), id, 0, service.CrawlStarted)
	waits := f.submit(f.client(key), f.submission(0, nil))
	made := func(path, body string) string {
		var got struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(f.want(201, "POST", path, key, body)), &got); err != nil {
			t.Fatal(err)
		}
		return got.ID
	}
	const schedule = `{"cron":"0 3 1 1 *","submission":{"start_urls":["https://a.test/"]}}`
	const hook = `{"url":"https://hook.test/","events":["crawl.paused"]}`
	// A valid body of each operation, and its path.
	valid := map[string]struct{ path, body string }{
		"submitCrawl":    {"/v1/crawls", `{"start_urls":["https://a.test/"]}`},
		"editCrawl":      {"/v1/crawls/" + waits, `{}`},
		"recrawl":        {"/v1/crawls/" + id + "/recrawl", `{}`},
		"createSchedule": {"/v1/schedules", schedule},
		"editSchedule":   {"/v1/schedules/" + made("/v1/schedules", schedule), `{}`},
		"createWebhook":  {"/v1/webhooks", hook},
		"editWebhook":    {"/v1/webhooks/" + made("/v1/webhooks", hook), `{}`},
		"denyHost":       {"/v1/hosts/a.test/deny", `{}`},
		"createKey":      {"/v1/keys", `{}`},
		"createAccount":  {"/v1/accounts", `{"name":"some"}`},
		"editAccount":    {"/v1/accounts/" + made("/v1/accounts", `{"name":"other"}`), `{}`},
		"putPlan":        {"/v1/plans/small", `{}`},
	}
	f.transport.QuickRefusals = true
	type request struct{ method, path, body string }
	requests := make(chan request)
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for r := range requests {
				req, err := http.NewRequestWithContext(t.Context(), r.method, f.url+r.path, strings.NewReader(r.body))
				if err != nil {
					t.Error(err)
					continue
				}
				req.Header.Set("Authorization", "Bearer "+key)
				req.Header.Set("Content-Type", "application/json")
				res, err := f.http.Do(req)
				if err != nil {
					t.Errorf("%.300s: %v", r.body, err)
					continue
				}
				if err := res.Body.Close(); err != nil || res.StatusCode >= 500 {
					t.Errorf("%s %s %.300s: status %d, %v", r.method, r.path, r.body, res.StatusCode, err)
				}
			}
		})
	}
	doc, err := apitest.Load()
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil || op.RequestBody.Value.Content.Get("application/json") == nil {
				continue
			}
			base, ok := valid[op.OperationID]
			if !ok {
				t.Errorf("%s %s has a body and is not tried: add operation %s", method, path, op.OperationID)
				continue
			}
			object := map[string]json.RawMessage{}
			if err := json.Unmarshal([]byte(base.body), &object); err != nil {
				t.Fatal(err)
			}
			for _, value := range hostileValues() {
				requests <- request{method, base.path, value}
				for _, field := range fieldsOf(op.RequestBody.Value.Content.Get("application/json").Schema) {
					requests <- request{method, base.path, with(object, field, value)}
				}
			}
		}
	}
	close(requests)
	senders.Wait()
	if crawl, err := f.client(key).Crawl(t.Context(), id); err != nil || crawl.State != service.Running {
		t.Errorf("the crawl that runs: %+v, %v", crawl, err)
	}
}

// fieldsOf names the fields of a request; settings are represented by some of each kind.
func fieldsOf(schema *openapi3.SchemaRef) (names []string) {
	for name := range schema.Value.Properties {
		names = append(names, name)
		switch name {
		case "settings":
			names = append(names, "settings.max_urls", "settings.duration", "settings.include", "settings.header",
				"settings.no_such")
		case "submission":
			names = append(names, "submission.start_urls", "submission.settings")
		}
	}
	slices.Sort(names)
	return names
}

// with is an object in which a field, or a field of a field, has a value.
func with(object map[string]json.RawMessage, field, value string) string {
	out := map[string]json.RawMessage{}
	for name, v := range object {
		out[name] = v
	}
	if outer, inner, nested := strings.Cut(field, "."); nested {
		out[outer] = json.RawMessage(fmt.Sprintf(`{%q:%s}`, inner, value))
	} else {
		out[field] = json.RawMessage(value)
	}
	text := "{"
	for name, v := range out { // by hand, since some values are not valid JSON
		text += fmt.Sprintf("%q:%s,", name, v)
	}
	return strings.TrimSuffix(text, ",") + "}"
}
