package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	driver "github.com/gomodule/redigo/redis"

	"github.com/mapwright/mapwright/internal/cluster"
)

// awayCodes begin errors of a server that cannot work now, and may later: it starts, has lost its disk or memory, is a
// replica, or waits for one.
var awayCodes = []string{"LOADING", "BUSY", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	outOfMemory, "MISCONF", "NOREPLICAS", "UNBLOCKED", "UNKILLABLE", "max number of clients reached"}

// refusedCodes begin errors of a server that does not let the user in, or is not of the kind that the address means.
// For a machine that works that is as if the server were away: its administrator has to repair it.
var refusedCodes = []string{"NOAUTH", "WRONGPASS", "NOPERM", "invalid password", "DENIED", noCluster,
	"AUTH <password> called without any password", "Client sent AUTH, but no password is set"}

// outOfMemory begins the error of a server that has used all of maxmemory.
const outOfMemory = "OOM"

// noCluster begins the error of a server that is no node of a Redis Cluster.
const noCluster = "This instance has cluster support disabled"

// movedCodes begin errors of a server that may not be the one to ask any more.
var movedCodes = []string{"READONLY", "MASTERDOWN", "LOADING", "NOREPLICAS"}

// hasCode reports whether an error is one of the server, with one of the codes. Before version 7, an error of a command
// in a script follows a text and a minus sign.
func hasCode(err error, codes []string) bool {
	answer, ok := errors.AsType[driver.Error](err)
	if !ok {
		return false
	}
	text := strings.TrimPrefix(string(answer), "ERR ")
	return slices.ContainsFunc(codes, func(code string) bool {
		return strings.HasPrefix(text, code) || strings.HasPrefix(text, "Error running script") &&
			strings.Contains(text, " -"+code+" ")
	})
}

// isRefused reports whether the server does not let the user in, or is not the one that the address means.
func isRefused(err error) bool {
	_, invalid := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return invalid || plain || hasCode(err, refusedCodes)
}

// classify makes one of the cluster's errors of an error of the client. Unknown says that an error after the request
// was sent leaves open whether it was carried out.
func (e *Engine) classify(doing string, err error, unknown bool) error {
	if err == nil {
		return nil
	}
	var kind error
	_, unsent := errors.AsType[dialError](err)
	_, answered := errors.AsType[driver.Error](err)
	_, done := errors.AsType[waitError](err)
	switch {
	case isOurs(err):
		return fmt.Errorf("%s: %w", doing, err)
	case done && unknown:
		kind = cluster.ErrUnknown
	case unknown && hasCode(err, []string{outOfMemory}):
		kind = cluster.ErrFull
	case unsent, answered && (hasCode(err, awayCodes) || hasCode(err, refusedCodes)):
		kind = cluster.ErrAway
	case answered && !done:
		return fmt.Errorf("%s: %s", doing, e.redact(err.Error()))
	case unknown:
		kind = cluster.ErrUnknown
	default:
		kind = cluster.ErrAway
	}
	if ended := contextError(err); ended != nil {
		return fmt.Errorf("%s: %w: %w", doing, kind, ended)
	}
	return fmt.Errorf("%s: %w: %s", doing, kind, e.redact(err.Error()))
}

func contextError(err error) error {
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return ended
		}
	}
	return nil
}

// isOurs reports whether an error was made by this package and not by the client.
func isOurs(err error) bool {
	for _, known := range []error{cluster.ErrFenced, cluster.ErrRolledBack, cluster.ErrNoCrawl, cluster.ErrExists,
		cluster.ErrNewer, cluster.ErrFull} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, wrong := errors.AsType[usageError](err)
	return wrong
}

// A usageError is a mistake of the caller.
type usageError struct{ error }

func usage(format string, args ...any) error {
	return usageError{errors.New(strings.TrimSpace(fmt.Sprintf(format, args...)))}
}
