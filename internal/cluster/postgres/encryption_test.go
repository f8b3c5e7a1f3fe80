package postgres

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// plainServer answers as a server without TLS that asks for the password in clear. It
// sends what one connection told it.
func plainServer(t *testing.T) (address string, told <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	passwords := make(chan string, 10)
	go func() {
		defer close(passwords)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			backend := pgproto3.NewBackend(conn, conn)
			for {
				m, err := backend.ReceiveStartupMessage()
				if err != nil {
					break
				}
				if _, asks := m.(*pgproto3.SSLRequest); asks {
					conn.Write([]byte("N"))
					continue
				}
				backend.Send(&pgproto3.AuthenticationCleartextPassword{})
				if backend.Flush() != nil {
					break
				}
				if m, err := backend.Receive(); err == nil {
					if p, ok := m.(*pgproto3.PasswordMessage); ok {
						passwords <- p.Password
					}
				}
				break
			}
			conn.Close()
		}
	}()
	return l.Addr().String(), passwords
}

// TestPasswordInClear connects to a server that refuses TLS and asks for the password.
func TestPasswordInClear(t *testing.T) {
	for _, c := range []struct {
		address, env string
		told         bool
	}{
		{"postgres://user:word@db.example/crawls", "", false},
		{"postgres://user:word@192.0.2.7:5433/crawls?search_path=mapwright", "", false},
		{"postgres://user:sslmode=disable@db.example/crawls", "", false},
		{"host=db.example user=user password=word", "", false},
		{"host=db.example user=user password=word sslnegotiation=direct", "", false},
		{"postgres://user:word@127.0.0.1,db.example/crawls?application_name=sslmode", "", true}, // the local one
		{"postgres://user:word@127.0.0.1/crawls", "", true},
		{"postgres://user:word@LOCALHOST/crawls", "", true},
		{"postgres://user:word@[::1]/crawls", "", true},
		{"postgres://user:word@db.example/crawls?sslmode=prefer", "", true},
		{"host=db.example user=user password=word sslmode = 'disable'", "", true},
		{"postgres://user:word@db.example/crawls", "allow", true},
		{"postgres://user:word@db.example/crawls", "require", false},
	} {
		t.Run(c.address+" "+c.env, func(t *testing.T) {
			t.Setenv("PGSSLMODE", c.env)
			t.Setenv("PGSSLROOTCERT", "")
			server, told := plainServer(t)
			config, err := pgx.ParseConfig(c.address)
			if err != nil {
				t.Fatal(err)
			}
			demandTLS(c.address, &config.Config)
			config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
			config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, server)
			}
			if _, err = pgx.ConnectConfig(t.Context(), config); err == nil {
				t.Fatal("connected")
			}
			select {
			case p := <-told:
				if !c.told {
					t.Errorf("the password went out: %s", p)
				}
			default:
				if c.told {
					t.Errorf("not tried without TLS: %v", err)
				} else if !strings.Contains(c.address, "direct") && !isUnverified(err) {
					t.Errorf("not told that TLS is missing: %v", err)
				}
			}
		})
	}
}

// TestDemandedTLS compares how each host of an address is connected to.
func TestDemandedTLS(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	const address = "postgres://u@127.0.0.2,db.example:6000,10.0.0.1/crawls"
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	demandTLS(address, &config.Config)
	verified := func(host string, c *tls.Config) bool {
		return c != nil && !c.InsecureSkipVerify && c.ServerName == host
	}
	if config.Host != "127.0.0.2" || len(config.Fallbacks) != 3 {
		t.Fatalf("%s and %d others", config.Host, len(config.Fallbacks))
	}
	for i, want := range []pgconn.FallbackConfig{
		{Host: "127.0.0.2", Port: 5432}, {Host: "db.example", Port: 6000}, {Host: "10.0.0.1", Port: 5432},
	} {
		got := config.Fallbacks[i]
		if got.Host != want.Host || got.Port != want.Port || verified(got.Host, got.TLSConfig) != (i > 0) {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if !isLocal("/var/run/postgresql") {
		t.Error("a socket is not local")
	}
}
