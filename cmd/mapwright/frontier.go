package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/urlfrontier"
	"github.com/mapwright/mapwright/internal/urlqueue"
	"github.com/mapwright/mapwright/internal/words"
)

// leastToken is how many characters a token needs at least.
const leastToken = 16

// frontierFlags are the flags of 'mapwright frontier'.
type frontierFlags struct {
	*command
	listen    string
	dir       string
	tlsCert   string
	tlsKey    string
	tokenFile string
	insecure  bool
	minFree   sizeFlag
	logLevel  string
	logFormat string

	// What check makes of them.
	token string
	tls   *tls.Config
	level slog.LevelVar
	log   *slog.Logger
}

func newFrontier(root *command) *cobra.Command {
	f := &frontierFlags{minFree: leastFree, command: root.sub(&cobra.Command{
		Use:   "frontier",
		Short: "Keep the URLs of other crawlers, over the URLFrontier API",
		Long: "Keep the URLs of other crawlers: every call of the URLFrontier API 2.6 of crawler-commons, over gRPC. " +
			"A put that was acknowledged is on disk. Delays, blocks, and which URLs clients hold survive any " +
			"restart. docs/urlfrontier.md has examples. Each flag is also an environment variable: --token-file is " +
			config.EnvName("token-file") + ".",
		Example: `  mapwright frontier
  mapwright frontier --listen 127.0.0.1:9000 --data-dir /var/lib/frontier
  mapwright frontier --listen 0.0.0.0:7071 --tls-cert cert.pem --tls-key key.pem --token-file token`,
		Args: cobra.NoArgs,
	})}
	fs := f.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.listen, "listen", "127.0.0.1:7071", "`address` to listen on; port 0 chooses a free one")
	fs.StringVarP(&f.dir, config.DataDirName, "d", "./frontier", "`directory` of the URLs")
	if err := f.MarkFlagDirname(config.DataDirName); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
	fs.StringVar(&f.tlsCert, "tls-cert", "", "`file` with the certificate, to speak TLS")
	fs.StringVar(&f.tlsKey, "tls-key", "", "`file` with the key of the certificate")
	fs.StringVar(&f.tokenFile, "token-file", "",
		"`file` with a token that clients must send as 'authorization: Bearer TOKEN'")
	fs.BoolVar(&f.insecure, "insecure", false,
		"allow addresses beyond this machine without TLS or a token: everybody who reaches the port can read and "+
			"delete all URLs")
	fs.Var(&f.minFree, "min-free", "puts fail while less than this `size` is free on the disk")
	fs.StringVar(&f.logLevel, "log-level", "info", "least level that is logged: debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "text", "text or json")
	complete(f.Command, "log-level", []string{"debug", "info", "warn", "error"})
	complete(f.Command, "log-format", []string{"text", "json"})
	return f.does(func([]string) error {
		if err := flagsFromEnv(fs, f.environ); err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return err
		}
		return f.run()
	})
}

// check names every fault of the flags.
func (f *frontierFlags) check() error {
	var bad []error
	fault := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	if f.dir == "" {
		fault("--data-dir is empty")
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		fault("--tls-cert and --tls-key go together")
	} else if f.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			fault("flag --tls-cert: %w", err)
		}
		f.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if f.tokenFile != "" {
		text, err := os.ReadFile(f.tokenFile)
		f.token = strings.TrimSpace(string(text))
		switch {
		case err != nil:
			fault("flag --token-file: %w", err)
		case len(f.token) < leastToken || strings.ContainsAny(f.token, " \t\r\n"):
			fault("flag --token-file: %s must hold one word of at least %d characters", f.tokenFile, leastToken)
		}
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		fault("flag --listen: %q is not an address such as 127.0.0.1:7071", f.listen)
	} else if !isLoopback(host) && !f.insecure && (f.tlsCert == "" || f.tokenFile == "") {
		fault("--listen %s can be reached from other machines: give --tls-cert, --tls-key and --token-file, or "+
			"listen on 127.0.0.1, or give --insecure if everybody in the network may read and delete all URLs",
			f.listen)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		fault("flag --log-level: %q is not debug, info, warn or error", f.logLevel)
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		fault("flag --log-format: %q is not text or json", f.logFormat)
	}
	f.level.Set(level)
	f.log = slog.New(logHandler(f.err, &f.level, f.logFormat, new(atomic.Int64)))
	if err := errors.Join(bad...); err != nil {
		return usage("%w", err)
	}
	return nil
}

// run serves until a signal ends it, or the disk fails.
func (f *frontierFlags) run() error {
	if pid, err := disk.Owner(f.dir); err == nil && pid != 0 {
		return servedAlready(f.dir, pid)
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return refusal(fmt.Errorf("cannot listen on %s: %w; --listen gives another address", f.listen, err))
	}
	failed := make(chan error, 1)
	began := time.Now()
	store, err := urlqueue.Open(f.dir, urlqueue.Options{MinFree: int64(f.minFree),
		Failed: func(err error) { failed <- err }})
	if err != nil {
		_ = listener.Close() // nothing was accepted
		if locked, ok := errors.AsType[*disk.LockedError](err); ok {
			return servedAlready(f.dir, locked.PID)
		}
		if errors.Is(err, urlqueue.ErrNotOurs) {
			return refusal(fmt.Errorf("data directory %w: --data-dir must name a new directory, or one that this "+
				"command made", err))
		}
		return &exitError{exitFailed, fmt.Errorf("data directory %s: %w", f.dir, err)}
	}
	o := urlfrontier.Options{Address: listener.Addr().String(), Token: f.token, Level: &f.level, Log: f.log}
	if f.tls != nil {
		o.GRPC = append(o.GRPC, grpc.Creds(credentials.NewTLS(f.tls)))
	}
	server := urlfrontier.New(store, o)
	urls, queues := store.Size()
	fmt.Fprintf(f.out, "data directory: %s, %s in %s, read in %s\n", f.dir, words.Count(int64(urls), "URL"),
		words.Count(int64(queues), "queue"), time.Since(began).Round(time.Millisecond))
	fmt.Fprintf(f.out, "mapwright %s listening on %s, URLFrontier API 2.6\n", version, listener.Addr())

	stopping := make(chan struct{})
	hard, stop := onSignals(f.Context(), f.log, func() { close(stopping) }, func() { os.Exit(exitInterrupted) })
	defer stop()
	go func() {
		select {
		case <-stopping:
			// Streams of puts may never end. What they were told is on disk.
			timer := time.AfterFunc(closeWithin, server.Stop)
			defer timer.Stop()
			go func() { <-hard.Done(); server.Stop() }()
			server.GracefulStop()
		case err := <-failed:
			f.log.Error("the disk failed; what was acknowledged is safe", "error", err)
			server.Stop()
		}
	}()
	err = errors.Join(server.Serve(listener), store.Close())
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("data directory %s: %w", f.dir, err)}
	}
	return nil
}
