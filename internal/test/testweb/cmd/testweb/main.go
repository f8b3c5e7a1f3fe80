// Command testweb serves a synthetic web on loopback, for tests that drive a
// crawler in a process of its own and for trying things by hand.
//
// It prints one line of JSON with its addresses when it is ready, and ends on SIGTERM,
// SIGINT or when its standard input is closed, so that it never outlives the test
// that started it.
//
//	testweb --hosts 20 --pages 200 --fault 'kind=over_rate hosts=3-5 per_second=10 retry_after=1s'
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		if err != flag.ErrHelp {
			fmt.Fprintln(os.Stderr, "testweb:", err)
		}
		os.Exit(2)
	}
}

// ready is the line printed at the start.
type ready struct {
	Addr     string `json:"addr"`
	Admin    string `json:"admin"`
	Resolve  string `json:"resolve"`
	StartURL string `json:"start_url"` // of the first host; /start-urls of the admin has all
	Hosts    int    `json:"hosts"`
	PID      int    `json:"pid"`
}

// run serves until ctx is done or stdin ends.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	srv, err := testweb.Start(o.config)
	if err != nil {
		return err
	}
	starts := srv.StartURLs()
	err = json.NewEncoder(stdout).Encode(ready{
		Addr: srv.Addr(), Admin: srv.AdminAddr(), Resolve: srv.Resolve(),
		StartURL: starts[0], Hosts: len(starts), PID: os.Getpid(),
	})
	if err != nil {
		return fmt.Errorf("print addresses: %w", err)
	}
	ended := make(chan struct{})
	if !o.keep {
		// Not joined: a read of standard input cannot be interrupted, and the process
		// ends with run.
		go func() {
			defer close(ended)
			io.Copy(io.Discard, stdin)
		}()
	}
	select {
	case <-ctx.Done():
	case <-ended:
	}
	return srv.Close()
}
