package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mapwright/mapwright/internal/service"
)

// Kinds of errors that only HTTP knows.
const (
	errMethod    service.ErrorCode = "method-not-allowed"
	errMediaType service.ErrorCode = "media-type"
	errTooLarge  service.ErrorCode = "too-large"
	errHost      service.ErrorCode = "host"
	errBody      service.ErrorCode = "bad-request"
	errTimeout   service.ErrorCode = "timeout"
	errRange     service.ErrorCode = "range"
	errInternal  service.ErrorCode = "internal"
)

// statusOf is the HTTP status of a kind of errors, and its title.
func statusOf(code service.ErrorCode) (int, string) {
	switch code {
	case errMethod:
		return http.StatusMethodNotAllowed, "The method is not allowed here"
	case errMediaType:
		return http.StatusUnsupportedMediaType, "The content type is not understood"
	case errTooLarge:
		return http.StatusRequestEntityTooLarge, "The request is too large"
	case errHost:
		return http.StatusMisdirectedRequest, "This host name is not served here"
	case errBody:
		return http.StatusBadRequest, "The request cannot be read"
	case errTimeout:
		return http.StatusRequestTimeout, "The request came too slowly"
	case errRange:
		return http.StatusRequestedRangeNotSatisfiable, "There is no such part"
	case errInternal:
		return http.StatusInternalServerError, "Internal error"
	}
	return code.Status(), code.Title()
}

// document is an RFC 9457 document.
type document struct {
	Type     string               `json:"type"`
	Title    string               `json:"title"`
	Status   int                  `json:"status"`
	Detail   string               `json:"detail"`
	Instance string               `json:"instance"`
	Errors   []service.FieldError `json:"errors,omitempty"`
	State    service.State        `json:"state,omitempty"`
	Allowed  []service.Command    `json:"allowed,omitempty"`
}

// refuse makes an error of a request.
func refuse(code service.ErrorCode, detail string, fields ...service.FieldError) error {
	return &service.Error{Code: code, Detail: detail, Fields: fields}
}

// fail answers with the document of an error. An error of the service itself is logged under the id of the request, and the client learns that id only.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	id := requestID(r)
	known, ok := errors.AsType[*service.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
			return // the client has gone
		}
		s.log.Error("request failed", "request", id, "method", r.Method, "path", r.URL.Path, "error", err)
		known = &service.Error{Code: errInternal, Detail: "the server could not do this; its log says why under the id of this request"}
	}
	status, title := statusOf(known.Code)
	d := document{Type: s.base + "/problems/" + string(known.Code), Title: title, Status: status, Detail: known.Detail, Instance: "urn:mapwright:request:" + id,
		Errors: known.Fields, State: known.State, Allowed: known.Allowed}
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
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(d) // a client that has gone
}
