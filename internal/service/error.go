package service

import (
	"fmt"
	"net/http"
	"strings"
)

// Error is a request that cannot be done, with what an RFC 9457 document needs.
type Error struct {
	Code    ErrorCode
	Detail  string       // what happened, to what, and what to do next
	Fields  []FieldError // every fault of the request
	State   State        // of the crawl, for a command that its state does not allow
	Allowed []Command    // the commands that its state allows
}

// FieldError is a fault of one field of a request.
type FieldError struct {
	Field  string `json:"field"` // such as settings.max_urls
	Code   string `json:"code"`  // such as invalid, unknown, not_allowed
	Detail string `json:"detail"`
}

// ErrorCode is the kind of an Error: the last part of the type of its document.
type ErrorCode string

// The kinds of errors.
const (
	ErrInvalid      ErrorCode = "invalid"      // fields are wrong
	ErrNotFound     ErrorCode = "not-found"    // there is no such thing, or it is of another account
	ErrState        ErrorCode = "state"        // the crawl's state does not allow the command
	ErrUnauthorized ErrorCode = "unauthorized" // no key, or one that is not valid
	ErrForbidden    ErrorCode = "forbidden"    // the key lacks the scope
	ErrReused       ErrorCode = "idempotency-key-reused"
	ErrExists       ErrorCode = "exists" // a name is taken
	ErrInUse        ErrorCode = "in-use" // something else needs what is to be deleted
	ErrPlanLimit    ErrorCode = "plan-limit"
	ErrRateLimit    ErrorCode = "rate-limit"
	ErrUnavailable  ErrorCode = "unavailable" // the service is shutting down, or its disk is full
)

// Kinds of errors that only HTTP knows.
const (
	ErrMethod    ErrorCode = "method-not-allowed"
	ErrMediaType ErrorCode = "media-type"
	ErrTooLarge  ErrorCode = "too-large"
	ErrHost      ErrorCode = "host"
	ErrBody      ErrorCode = "bad-request"
	ErrTimeout   ErrorCode = "timeout"
	ErrRange     ErrorCode = "range"
	ErrInternal  ErrorCode = "internal"
)

// Status is the HTTP status of an error of this kind.
func (c ErrorCode) Status() int { return c.kind().status }

// Title is the short text for errors of this kind.
func (c ErrorCode) Title() string { return c.kind().title }

// errorKind is what the documents of all errors of a kind have.
type errorKind struct {
	status int
	title  string
}

func (c ErrorCode) kind() errorKind {
	return map[ErrorCode]errorKind{
		ErrInvalid:      {http.StatusUnprocessableEntity, "The request has faults"},
		ErrNotFound:     {http.StatusNotFound, "Not found"},
		ErrState:        {http.StatusConflict, "The crawl's state does not allow this"},
		ErrUnauthorized: {http.StatusUnauthorized, "No valid key"},
		ErrForbidden:    {http.StatusForbidden, "The key may not do this"},
		ErrReused:       {http.StatusUnprocessableEntity, "The idempotency key was used for another request"},
		ErrExists:       {http.StatusConflict, "This exists already"},
		ErrInUse:        {http.StatusConflict, "This is in use"},
		ErrPlanLimit:    {http.StatusForbidden, "The plan does not allow this"},
		ErrRateLimit:    {http.StatusTooManyRequests, "Too many requests"},
		ErrUnavailable:  {http.StatusServiceUnavailable, "The service cannot do this now"},
		ErrMethod:       {http.StatusMethodNotAllowed, "The method is not allowed here"},
		ErrMediaType:    {http.StatusUnsupportedMediaType, "The content type is not understood"},
		ErrTooLarge:     {http.StatusRequestEntityTooLarge, "The request is too large"},
		ErrHost:         {http.StatusMisdirectedRequest, "This host name is not served here"},
		ErrBody:         {http.StatusBadRequest, "The request cannot be read"},
		ErrTimeout:      {http.StatusRequestTimeout, "The request came too slowly"},
		ErrRange:        {http.StatusRequestedRangeNotSatisfiable, "There is no such part"},
		ErrInternal:     {http.StatusInternalServerError, "Internal error"},
	}[c]
}

// Error implements error.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.Detail)
	for _, f := range e.Fields {
		fmt.Fprintf(&text, "; %s: %s", f.Field, f.Detail)
	}
	return text.String()
}

// notFound is the error for an id that does not exist or is of another account.
func notFound(what, id string) *Error {
	return &Error{Code: ErrNotFound, Detail: fmt.Sprintf("there is no %s %q", what, id)}
}

// Document is an Error as the HTTP API writes it: an RFC 9457 document.
type Document struct {
	Type     string       `json:"type"`
	Title    string       `json:"title"`
	Status   int          `json:"status"`
	Detail   string       `json:"detail"`
	Instance string       `json:"instance"`
	Errors   []FieldError `json:"errors,omitempty"`
	State    State        `json:"state,omitempty"`
	Allowed  []Command    `json:"allowed,omitempty"`
}
