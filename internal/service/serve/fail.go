package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/words"
)

// refuse makes an error of a request.
func refuse(code service.ErrorCode, detail string, fields ...service.FieldError) error {
	return &service.Error{Code: code, Detail: detail, Fields: fields}
}

// fail answers with the document of an error. An error of the service itself is logged under the id of the request, and
// the client learns that id only.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	id := requestID(r)
	known, ok := errors.AsType[*service.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
			return // the client has gone
		}
		s.Log.Error("request failed", "request", id, "method", r.Method, "path", r.URL.Path, "error", err)
		known = &service.Error{Code: service.ErrInternal,
			Detail: "the server could not do this; its log says why under the id of this request"}
	}
	faults := known.Fields
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(slices.Clip(faults[:maxFaults]), service.FieldError{Code: "more", Detail: "and " +
			words.Count(int64(more), "other fault")})
	}
	d := service.Document{Type: s.base + "/problems/" + string(known.Code), Title: known.Code.Title(),
		Status: known.Code.Status(), Detail: known.Detail,
		Instance: "urn:mapwright:request:" + id, Errors: faults, State: known.State, Allowed: known.Allowed}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	for _, name := range []string{"Content-Encoding", "Content-Disposition", "ETag", "Last-Modified", "Location"} {
		h.Del(name)
	}
	switch known.Code {
	case service.ErrUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="mapwright"`)
	case service.ErrRateLimit, service.ErrUnavailable:
		if h.Get("Retry-After") == "" {
			h.Set("Retry-After", "1")
		}
	}
	w.WriteHeader(d.Status)
	_ = json.NewEncoder(w).Encode(d) // a client that has gone
}
