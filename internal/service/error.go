package service

import (
	"database/sql"
	"errors"
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
	ErrDiskFull     ErrorCode = "disk-full"   // less than --min-free is free, or nothing at all
	ErrUnavailable  ErrorCode = "unavailable" // the service is shutting down, or busy with the crawl
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

// Explanation says what errors of this kind mean, and what to do about them.
func (c ErrorCode) Explanation() string { return c.kind().explanation }

// errorKind is what the documents of all errors of a kind have.
type errorKind struct {
	status      int
	title       string
	explanation string
}

func (c ErrorCode) kind() errorKind {
	return map[ErrorCode]errorKind{
		ErrInvalid: {http.StatusUnprocessableEntity, "The request has faults",
			"Fields of the body, or parameters of the address, are wrong. errors names each of them and says what is " +
				"allowed."},
		ErrNotFound: {http.StatusNotFound, "Not found",
			"There is no such thing, or it belongs to another account. A result of a crawl may not exist yet: detail " +
				"says when it does."},
		ErrState: {http.StatusConflict, "The crawl's state does not allow this",
			"The command does not fit the state of the crawl. state is its state, and allowed lists the commands " +
				"that fit."},
		ErrUnauthorized: {http.StatusUnauthorized, "No valid key",
			"The request has no key, or one that is unknown, revoked or expired. Send it as Authorization: Bearer " +
				"KEY."},
		ErrForbidden: {http.StatusForbidden, "The key may not do this",
			"The key is valid, but its scopes do not include what this needs. detail names the scope."},
		ErrReused: {http.StatusUnprocessableEntity, "The idempotency key was used for another request",
			"A request with another body had the same Idempotency-Key within 24 hours. Use a new key for a new " +
				"request."},
		ErrExists: {http.StatusConflict, "This exists already",
			"The name is taken. Choose another, or change what has it."},
		ErrInUse: {http.StatusConflict, "This is in use",
			"Something else uses what should be deleted. detail names it."},
		ErrPlanLimit: {http.StatusForbidden, "The plan does not allow this",
			"The plan of the account does not allow this. detail names the limit; an admin can give the account " +
				"another plan."},
		ErrRateLimit: {http.StatusTooManyRequests, "Too many requests",
			"Too many requests came in a short time. Retry-After says after how many seconds to try again."},
		ErrDiskFull: {http.StatusInsufficientStorage, "The server's disk is nearly full",
			"The server keeps the disk space that is left, so it accepts nothing that adds to its data. Crawls can " +
				"still be read, paused, cancelled and deleted. Delete crawls that are not needed, or try again later: " +
				"the operator of the server decides how much must be free."},
		ErrUnavailable: {http.StatusServiceUnavailable, "The service cannot do this now",
			"The server is shutting down, or just starts or ends the crawl. Try again after the seconds of " +
				"Retry-After."},
		ErrMethod: {http.StatusMethodNotAllowed, "The method is not allowed here",
			"The address exists, but not for this method. The header Allow lists those that it has."},
		ErrMediaType: {http.StatusUnsupportedMediaType, "The content type is not understood",
			"The body must be JSON, with the header Content-Type: application/json."},
		ErrTooLarge: {http.StatusRequestEntityTooLarge, "The request is too large",
			"The body is larger than the server reads. detail names the limit."},
		ErrHost: {http.StatusMisdirectedRequest, "This host name is not served here",
			"The name in the address is not one of this server. Use its address, localhost, or the name of " +
				"--public-url."},
		ErrBody: {http.StatusBadRequest, "The request cannot be read",
			"The body is not valid JSON, or ended early."},
		ErrTimeout: {http.StatusRequestTimeout, "The request came too slowly",
			"The request did not arrive in time. Send it again."},
		ErrRange: {http.StatusRequestedRangeNotSatisfiable, "There is no such part",
			"The file is shorter than the part that was asked for. Content-Range tells its size."},
		ErrInternal: {http.StatusInternalServerError, "Internal error",
			"The server could not do this. Its log has the cause under the id in instance."},
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

// orNotFound turns the error of a query without rows into one that names what was looked for.
func orNotFound(err error, what, id string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return notFound(what, id)
	}
	return err
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
