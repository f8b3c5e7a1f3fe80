// Package postgres keeps crawls of several machines in PostgreSQL 15 or later. It
// implements [cluster.Engine]. Open connects and brings the schema up to date, Close
// ends all connections; in between every method may be called concurrently.
//
// Only plain SQL is used, so that databases with PostgreSQL's protocol can serve. The
// features are listed in the DESIGN.md of package cluster.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mapwright/mapwright/internal/cluster"
)

// An Engine is a database.
type Engine struct {
	pool    *pgxpool.Pool
	secrets []string // what must not be in messages
}

var _ cluster.Engine = (*Engine)(nil)

// connectTimeout is for one server, if the URL does not say another.
const connectTimeout = 5 * time.Second

// Open connects to the database of a URL such as postgres://user@host/database, or of
// a text of the form that libpq reads. Several hosts are tried in turn; of these only
// one that accepts writes is used.
func Open(ctx context.Context, address string) (*Engine, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		// The text of this error has parts of the address.
		return nil, errors.New("the address of the cluster's database cannot be read: it must be like " +
			"postgres://user@host/database")
	}
	demandTLS(address, &config.ConnConfig.Config)
	e := &Engine{secrets: secrets(address, config.ConnConfig.Password)}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "mapwright"
	}
	if config.ConnConfig.ValidateConnect == nil {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	// A machine that is stopped in the middle of a transaction holds locks, and the machines that take its partitions
	// over would wait for them. A database without this setting works too.
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("SET idle_in_transaction_session_timeout = %d",
			(cluster.Lease/2).Milliseconds()))
		if _, answered := errors.AsType[*pgconn.PgError](err); answered {
			return nil
		}
		return err
	}
	if e.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, e.classify("connect", err, false)
	}
	if err = e.checkDurable(ctx); err == nil {
		err = e.migrate(ctx)
	}
	if err != nil {
		e.pool.Close()
		switch { // the address is wrong, rather than the server
		case isRefused(code(err)):
			err = usage("%s", e.redact(err.Error()))
		case isUnverified(err):
			err = usage("%s; a server on another machine needs TLS and a certificate that is valid for its name "+
				"(sslrootcert=FILE names another authority), unless the address says an sslmode", e.redact(err.Error()))
		}
		return nil, e.classify("open the cluster's database", err, false)
	}
	return e, nil
}

// checkDurable refuses a server that acknowledges before its disk has the data. A database without these settings
// passes.
func (e *Engine) checkDurable(ctx context.Context) error {
	for _, name := range []string{"fsync", "synchronous_commit"} {
		var value *string
		if err := e.pool.QueryRow(ctx, `SELECT current_setting($1, true)`, name).Scan(&value); err != nil {
			return err
		}
		if value != nil && *value == "off" {
			return usage("the server's setting %s is off: it would lose what it has acknowledged", name)
		}
	}
	return nil
}

// secrets are the forms in which a password may be in a message.
func secrets(address, password string) []string {
	var list []string
	if password != "" {
		list = append(list, password, url.QueryEscape(password), url.PathEscape(password))
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		if p, ok := u.User.Password(); ok && p != "" {
			list = append(list, p)
		}
	}
	return list
}

// Close implements [cluster.Engine].
func (e *Engine) Close() error {
	e.pool.Close()
	return nil
}
