package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mapwright/mapwright/internal/cluster"
)

// Errors of a server that can be mended are a pause for the machines, and the others end them. That a COMMIT did not
// happen is known only if the server says so.
func TestClassify(t *testing.T) {
	e := &Engine{secrets: []string{"secret"}}
	for code, want := range map[string]error{
		"57P01": cluster.ErrAway, "57P03": cluster.ErrAway, "53300": cluster.ErrAway, "53100": cluster.ErrAway,
		"25006": cluster.ErrAway, "25P03": cluster.ErrAway, "55P03": cluster.ErrAway,
		"28P01": cluster.ErrAway, "28000": cluster.ErrAway, "08006": cluster.ErrAway, "40003": cluster.ErrAway,
		"42P01": nil, "42501": nil, "23505": nil, "3D000": nil, "XX001": nil,
	} {
		failed := fmt.Errorf("secret: %w", &pgconn.PgError{Code: code, Message: "says secret"})
		got := e.classify("beat", failed, true)
		if want == nil && (errors.Is(got, cluster.ErrAway) || errors.Is(got, cluster.ErrUnknown)) || want != nil &&
			!errors.Is(got, want) {
			t.Errorf("%s is %v, want %v", code, got, want)
		}
		if got := e.classify("commit", errCommit{failed}, true); errors.Is(got, cluster.ErrUnknown) != (want != nil) {
			t.Errorf("%s of COMMIT is %v", code, got)
		}
	}
	if got := e.classify("commit", errCommit{errors.New("connection reset")}, true); !errors.Is(got,
		cluster.ErrUnknown) {
		t.Errorf("a lost answer is %v", got)
	}
	if got := e.classify("beat", errors.New("connection reset by secret"), false); !errors.Is(got, cluster.ErrAway) ||
		got.Error() != "beat: "+cluster.ErrAway.Error()+": connection reset by ***" {
		t.Errorf("a lost connection is %v", got)
	}
}
