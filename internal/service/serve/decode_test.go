package serve

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/schedules"
)

func bodyRequest(kind, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/crawls", strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	return r
}

// Every fault of a body is named at once, and nothing that is not in the document passes.
func TestBodies(t *testing.T) {
	t.Parallel()
	const json = "application/json"
	for _, c := range []struct {
		kind, body string
		code       service.ErrorCode // "" means that it passes
		fields     []string
	}{
		{json, `{"start_urls":["https://a.test/"],"priority":3}`, "", nil},
		{json + "; charset=utf-8", ` {"start_urls":[]} `, "", nil},
		{json, `{"Start_URLs":1,"name":5,"labels":"x","priority":"high","settings":[1],"more":{}}`, service.ErrInvalid,
			[]string{"Start_URLs", "labels", "more", "name", "priority", "settings"}},
		{json, `{"priority":1.5}`, service.ErrInvalid, []string{"priority"}},
		{json, `{"priority":99999999999999999999}`, service.ErrInvalid, []string{"priority"}},
		{json, `[]`, service.ErrInvalid, []string{""}},
		{json, `null`, service.ErrInvalid, []string{""}},
		{json, `"x"`, service.ErrInvalid, []string{""}},
		{json, `{} {}`, service.ErrBody, nil},
		{json, ``, service.ErrBody, nil},
		{json, `{"name":`, service.ErrBody, nil},
		{json, strings.Repeat("[", 100_000), service.ErrBody, nil},
		{json, `{"name":"` + strings.Repeat("x", maxBody) + `"}`, service.ErrTooLarge, nil},
		{json, `{"name":"` + strings.Repeat("x", maxText) + `","start_urls":["` + strings.Repeat("x", maxBody/2) +
			`"]}`, service.ErrInvalid, []string{"name"}},
		{json, `{"labels":["` + strings.Repeat(`x","`, maxValue/4) + `"],"settings":{"` +
			strings.Repeat("x", maxValue) + `":1}}`, service.ErrInvalid, []string{"labels", "settings"}},
		{"", `{}`, service.ErrMediaType, nil},
		{"text/plain", `{}`, service.ErrMediaType, nil},
		{"application/x-www-form-urlencoded", `name=x`, service.ErrMediaType, nil},
		{"application/json-patch+json", `[]`, service.ErrMediaType, nil},
		{"application/merge-patch+json", `{}`, service.ErrMediaType, nil}, // only for PATCH
	} {
		var s service.Submission
		err := readBody(httptest.NewRecorder(), bodyRequest(c.kind, c.body), &s, false)
		name := c.body[:min(len(c.body), 60)]
		if c.code == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		e, ok := errors.AsType[*service.Error](err)
		if !ok || e.Code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
			continue
		}
		var fields []string
		for _, f := range e.Fields {
			fields = append(fields, f.Field)
		}
		if !slices.Equal(fields, c.fields) {
			t.Errorf("%s: faults of %q, want %q", name, fields, c.fields)
		}
	}
}

// A body that may be missing need not have a type.
func TestOptionalBodies(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{"": true, "{}": false} {
		for _, length := range []int64{int64(len(body)), -1} { // -1: sent in chunks
			var recrawl service.Recrawl
			r := bodyRequest("", body)
			r.ContentLength = length
			if err := readBody(httptest.NewRecorder(), r, &recrawl, true); (err == nil) != want {
				t.Errorf("%q without a type, length %d: %v", body, length, err)
			}
		}
	}
}

// Objects inside of objects are checked too.
func TestNestedFaults(t *testing.T) {
	t.Parallel()
	var s schedules.Input
	err := readBody(httptest.NewRecorder(), bodyRequest("application/json",
		`{"submission":{"start_urls":7,"x":1},"recrawl":[]}`), &s, false)
	e, ok := errors.AsType[*service.Error](err)
	if !ok || len(e.Fields) != 3 || e.Fields[0].Field != "recrawl" || e.Fields[1].Field != "submission.start_urls" ||
		e.Fields[2].Field != "submission.x" {
		t.Errorf("%+v", err)
	}
}

// No body makes a handler fail, and every fault has a field and a text.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"start_urls":["https://a.test/"],"settings":{"max_urls":5},"labels":["a"],"priority":3}`))
	f.Add([]byte(`{"name":null,"labels":[null],"\u0000":1}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, dst := range []any{&service.Submission{}, &service.Edit{}, &schedules.Input{}, &keyInput{},
			&service.Plan{}} {
			err := readBody(httptest.NewRecorder(), bodyRequest("application/json", string(body)), dst, false)
			if err == nil {
				continue
			}
			e, ok := errors.AsType[*service.Error](err)
			if !ok {
				t.Fatalf("%q: %v is no error of the request", body, err)
			}
			if status := e.Code.Status(); status < 400 || status > 499 {
				t.Fatalf("%q: status %d", body, status)
			}
			for _, field := range e.Fields {
				if field.Detail == "" || field.Code == "" || !utf8.ValidString(field.Field) {
					t.Fatalf("%q: fault %+v", body, field)
				}
			}
		}
	})
}

// A body of very many fields is refused before it takes many times its size in memory.
func TestBodyOfManyFields(t *testing.T) { // not parallel: it counts what is allocated
	var body strings.Builder
	body.WriteString(`{"x":0`)
	for i := 0; body.Len() < maxBody-20; i++ {
		body.WriteString(`,"` + strconv.FormatInt(int64(i), 36) + `":1`)
	}
	body.WriteString(`}`)
	var err error
	n := testing.AllocsPerRun(1, func() {
		var s service.Submission
		err = readBody(httptest.NewRecorder(), bodyRequest("application/json", body.String()), &s, false)
	})
	if e, ok := errors.AsType[*service.Error](err); !ok || e.Code != service.ErrInvalid || n > 20*maxFields {
		t.Errorf("%.0f allocations, %v", n, err)
	}
}
