// Package apitest compares what clients and servers of the API say with the OpenAPI document, for tests.
package apitest

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/mapwright/mapwright/internal/service/serve"
)

// Transport sends requests and checks each exchange. It returns an error if an answer is not as the document says, or
// if the server accepts a request that the document does not allow.
type Transport struct {
	inner  http.RoundTripper
	base   string
	router routers.Router

	// QuickRefusals compares answers with an error by their type only, for a test that sends thousands of bad requests.
	// Set it before the first one.
	QuickRefusals bool

	mu   sync.Mutex
	used map[string]bool // guarded by mu; operations that were answered with success
}

// New makes a transport for a server below a base path.
func New(base string, inner http.RoundTripper) (*Transport, error) {
	doc, err := Load()
	if err != nil {
		return nil, err
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, err
	}
	return &Transport{inner: inner, base: base, router: router, used: map[string]bool{}}, nil
}

// Load is the document of a server without a base path. Objects may have no properties that it does not name, so that
// none is forgotten in it.
func Load() (*openapi3.T, error) {
	text, err := serve.Document("")
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	for _, schema := range doc.Components.Schemas {
		closeObjects(schema)
	}
	return doc, nil
}

func closeObjects(ref *openapi3.SchemaRef) {
	if ref == nil || ref.Value == nil || ref.Ref != "" {
		return
	}
	s := ref.Value
	if more := &s.AdditionalProperties; len(s.Properties) > 0 && more.Has == nil && more.Schema == nil {
		more.Has = new(bool)
	}
	for _, p := range s.Properties {
		closeObjects(p)
	}
	closeObjects(s.Items)
}

// Used says whether an operation was answered with success.
func (t *Transport) Used(operation string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used[operation]
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil {
		var err error
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	res, err := t.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := t.check(req, sent, res); err != nil {
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s %s: status %d: %w", req.Method, req.URL.Path, res.StatusCode, err)
	}
	return res, nil
}

func (t *Transport) check(req *http.Request, sent []byte, res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode >= 400 && kind != "application/problem+json" && !strings.HasSuffix(req.URL.Path, "/login") {
		return fmt.Errorf("an error of the type %q is no problem document", kind)
	}
	if t.QuickRefusals && res.StatusCode >= 400 {
		return nil
	}
	// The document's paths have no host and no base path.
	plain := httptest.NewRequest(req.Method, "/", bytes.NewReader(sent))
	plain.Header = req.Header
	inner := *req.URL
	inner.Scheme, inner.Host, inner.Path, inner.RawPath = "", "", strings.TrimPrefix(inner.Path, t.base),
		strings.TrimPrefix(inner.RawPath, t.base)
	plain.URL = &inner
	route, params, err := t.router.FindRoute(plain)
	if err != nil {
		if res.StatusCode < 400 && strings.HasPrefix(inner.Path, "/v1/") {
			return fmt.Errorf("the document has no such operation: %w", err)
		}
		return nil
	}
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		IncludeResponseStatus: true, RejectWhenRequestBodyNotSpecified: len(sent) > 0, SkipSettingDefaults: true}
	in := &openapi3filter.RequestValidationInput{Request: plain, PathParams: params, Route: route, Options: options}
	if res.StatusCode < 400 {
		if err := openapi3filter.ValidateRequest(req.Context(), in); err != nil {
			return fmt.Errorf("the server accepts what the document does not allow: %w", err)
		}
		t.mu.Lock()
		t.used[route.Operation.OperationID] = true
		t.mu.Unlock()
	}
	described := route.Operation.Responses.Status(res.StatusCode)
	if described == nil {
		described = route.Operation.Responses.Default()
	}
	if described != nil && len(described.Value.Content) > 0 && described.Value.Content.Get(kind) == nil {
		return fmt.Errorf("the answer has the type %q, which the document does not name", kind)
	}
	isJSON := kind == "application/json" || kind == "application/problem+json"
	var got []byte
	if isJSON {
		if got, err = io.ReadAll(res.Body); err != nil {
			return err
		}
		res.Body = io.NopCloser(bytes.NewReader(got))
	}
	answerOptions := *options
	answerOptions.ExcludeResponseBody = !isJSON
	answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: res.StatusCode,
		Header: res.Header, Options: &answerOptions}
	answer.SetBodyBytes(got)
	if err := openapi3filter.ValidateResponse(req.Context(), answer); err != nil {
		return fmt.Errorf("the answer is not as the document says: %w: %.2000s", err, got)
	}
	return nil
}
