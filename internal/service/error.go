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

// Status is the HTTP status of an error of this kind.
func (c ErrorCode) Status() int {
	switch c {
	case ErrInvalid, ErrReused:
		return http.StatusUnprocessableEntity
	case ErrNotFound:
		return http.StatusNotFound
	case ErrState, ErrExists, ErrInUse:
		return http.StatusConflict
	case ErrUnauthorized:
		return http.StatusUnauthorized
	case ErrForbidden, ErrPlanLimit:
		return http.StatusForbidden
	case ErrRateLimit:
		return http.StatusTooManyRequests
	case ErrUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Title is the short text for errors of this kind.
func (c ErrorCode) Title() string {
	switch c {
	case ErrInvalid:
		return "The request has faults"
	case ErrNotFound:
		return "Not found"
	case ErrState:
		return "The crawl's state does not allow this"
	case ErrUnauthorized:
		return "No valid key"
	case ErrForbidden:
		return "The key may not do this"
	case ErrReused:
		return "The idempotency key was used for another request"
	case ErrExists:
		return "This exists already"
	case ErrInUse:
		return "This is in use"
	case ErrPlanLimit:
		return "The plan does not allow this"
	case ErrRateLimit:
		return "Too many requests"
	case ErrUnavailable:
		return "The service cannot do this now"
	}
	return "Internal error"
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
