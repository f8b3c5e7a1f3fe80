package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/hosts"
	"github.com/mapwright/mapwright/internal/service/schedules"
	"github.com/mapwright/mapwright/internal/service/serve"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

const day = 24 * time.Hour

// leastFree is the least free disk space in bytes: with less, the store of a crawl writes nothing.
const leastFree = 256 << 20

// leastRate and mostRate bound --rate-limit, in requests per second. The first request of a key would be its last with
// much less, and counts of requests overflow with much more.
const leastRate, mostRate = 0.01, 1e6

// serveFlags are the flags of 'mapwright serve'.
type serveFlags struct {
	*command
	listen         string
	publicURL      string
	trustedProxies []string
	tlsCert        string
	tlsKey         string
	insecureHTTP   bool
	rateLimit      float64
	maxCrawls      int
	maxWorkers     int
	memoryLimit    sizeFlag
	minFree        sizeFlag
	retention      ageFlag
	keepEvents     ageFlag
	keepAudit      ageFlag
	logLevel       string
	logFormat      string
	config         string

	// What check makes of them.
	public      *url.URL
	proxies     []netip.Prefix
	tls         *tls.Config
	log         *slog.Logger
	connections int // that clients may have at once
}

func newServe(root *command) *cobra.Command {
	f := &serveFlags{command: root.sub(&cobra.Command{
		Use:   "serve [directory]",
		Short: "Run crawls for people and programs, over HTTP",
		Long: "Run crawls for people and programs: an HTTP API (/openapi.json describes it), a queue, accounts with " +
			"keys and plans, schedules and webhooks. " +
			"Crawls that were accepted survive any restart, and those that ran go on. Each flag is also an " +
			"environment variable: --max-crawls is " + config.EnvName("max-crawls") + ".",
		Example: `  mapwright serve
  mapwright serve --listen 127.0.0.1:9000 --data-dir /var/lib/mapwright --max-crawls 8
  mapwright serve --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem
  mapwright serve --public-url https://example.com/crawls --trusted-proxies 127.0.0.1`,
		Args: oneDirectory,
	})}
	fs := f.Flags()
	fs.SortFlags = false
	f.memoryLimit, f.minFree = 2<<30, 1<<30
	f.keepEvents, f.keepAudit = ageFlag(90*day), ageFlag(2*365*day)
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`address` to listen on; port 0 chooses a free one")
	f.addDataDir()
	fs.Lookup(config.DataDirName).Usage = "`directory` of the database and of all crawls"
	fs.IntVar(&f.maxCrawls, "max-crawls", 4, "crawls that run at once; others wait")
	fs.IntVar(&f.maxWorkers, "max-workers", 512, "fetches and parses under way at once, over all crawls")
	fs.Var(&f.memoryLimit, "memory-limit",
		"`size` of the memory that the crawls share; at least 4MiB for each that runs at once")
	fs.Var(&f.minFree, "min-free",
		"crawls pause, and submissions are refused, while less than this `size` is free on the disk; at least 256MiB, "+
			"which the store of a crawl needs")
	fs.Var(&f.retention, "retention",
		"`time` after which finished crawls are deleted with all their data, such as 30d (0 is never)")
	fs.Var(&f.keepEvents, "keep-events", "`time` for which events are kept, such as 30d (0 is for ever)")
	fs.Var(&f.keepAudit, "keep-audit", "`time` for which the audit log is kept, such as 365d (0 is for ever)")
	fs.StringVar(&f.config, "config", "",
		"YAML `file` with settings for all crawls, as for 'mapwright crawl'; submissions override what they may")
	fs.StringVar(&f.publicURL, "public-url", "",
		"`URL` under which users reach the server if a proxy stands before it; its path is the base path")
	fs.StringSliceVar(&f.trustedProxies, "trusted-proxies", nil,
		"`addresses` or networks of proxies whose X-Forwarded-For is believed")
	fs.StringVar(&f.tlsCert, "tls-cert", "", "`file` with the certificate, to speak https")
	fs.StringVar(&f.tlsKey, "tls-key", "", "`file` with the key of the certificate")
	fs.BoolVar(&f.insecureHTTP, "insecure-http", false,
		"allow plain HTTP on addresses beyond this machine: keys can be read on the way")
	fs.Float64Var(&f.rateLimit, "rate-limit", serve.DefaultRate,
		"requests per second of one key; all keys of an account have four times as many (0 is no limit)")
	fs.StringVar(&f.logLevel, "log-level", "info", "least level that is logged: debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "text", "text or json")
	complete(f.Command, "log-level", []string{"debug", "info", "warn", "error"})
	complete(f.Command, "log-format", []string{"text", "json"})
	return f.does(func(args []string) error {
		name, dirErr := f.existing(args) // an argument replaces the directory of the environment
		if err := errors.Join(dirErr, flagsFromEnv(fs, f.environ)); err != nil {
			return err
		}
		var base []config.Layer
		if f.config != "" {
			layer, err := config.FromFile(f.config)
			if err != nil {
				return usage("%w", err)
			}
			base = append(base, layer)
			if err := service.CheckBase(base); err != nil {
				return usage("--config %s: %w", f.config, err)
			}
		}
		return f.run(string(name), base)
	})
}

// flagsFromEnv sets flags that were not given from environment variables. All bad values are named at once.
func flagsFromEnv(fs *pflag.FlagSet, environ []string) error {
	var bad []error
	fs.VisitAll(func(flag *pflag.Flag) {
		name := config.EnvName(flag.Name)
		value := lookup(environ, name)
		if value == "" || flag.Changed || flag.Name == "help" {
			return
		}
		if err := fs.Set(flag.Name, value); err != nil {
			bad = append(bad, fmt.Errorf("environment %s: %w", name, err))
		}
	})
	if err := errors.Join(bad...); err != nil {
		return usage("%w", err)
	}
	return nil
}

// sizeFlag is a number of bytes.
type sizeFlag int64

func (s *sizeFlag) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > 1<<62 {
		return fmt.Errorf("%q is not a size such as 2GiB", text)
	}
	*s = sizeFlag(n)
	return nil
}

func (s *sizeFlag) String() string { return strings.ReplaceAll(humanize.IBytes(uint64(*s)), " ", "") }

func (s *sizeFlag) Type() string { return "size" }

// check names every fault of the flags.
func (f *serveFlags) check() error {
	var bad []error
	fault := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	if f.publicURL != "" {
		u, err := url.Parse(f.publicURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" ||
			u.Fragment != "" || u.User != nil {
			fault("flag --public-url: %q is not an http or https URL such as https://example.com/crawls", f.publicURL)
		} else {
			f.public = u
		}
	}
	for _, text := range f.trustedProxies {
		prefix, err := parsePrefix(text)
		if err != nil {
			fault("flag --trusted-proxies: %q is not an address or a network such as 10.0.0.0/8", text)
		}
		f.proxies = append(f.proxies, prefix)
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		fault("--tls-cert and --tls-key go together")
	} else if f.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			fault("flag --tls-cert: %w", err)
		}
		// Without P-521, which takes six times the processor's time, and which no client needs.
		f.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
			NextProtos:       []string{"http/1.1"},
			CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384}}
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		fault("flag --listen: %q is not an address such as 127.0.0.1:8080", f.listen)
	} else if !isLoopback(host) && f.tlsCert == "" && !f.insecureHTTP {
		fault("--listen %s can be reached from other machines, and keys would travel as plain text: give --tls-cert "+
			"and --tls-key, "+
			"or listen on 127.0.0.1 behind a proxy that speaks https, or give --insecure-http if the network is safe",
			f.listen)
	}
	if f.maxCrawls < 1 {
		fault("flag --max-crawls: must be at least 1")
	}
	if f.maxWorkers < 1 {
		fault("flag --max-workers: must be at least 1")
	}
	if f.maxCrawls >= 1 && int64(f.memoryLimit)/int64(f.maxCrawls) < service.LeastMemory {
		fault("flag --memory-limit: must be at least %dMiB for each crawl that runs at once (--max-crawls %d)",
			service.LeastMemory>>20, f.maxCrawls)
	}
	if f.rateLimit != 0 && !(f.rateLimit >= leastRate && f.rateLimit <= mostRate) { // NaN too
		fault("flag --rate-limit: must be a number from 0.01 to 1,000,000, or 0 for no limit")
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		fault("flag --log-level: %q is not debug, info, warn or error", f.logLevel)
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		fault("flag --log-format: %q is not text or json", f.logFormat)
	}
	f.log = slog.New(logHandler(f.err, level, f.logFormat, new(atomic.Int64)))
	if err := errors.Join(bad...); err != nil {
		return usage("%w", err)
	}
	return nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Prefix(addr.BitLen())
	}
	return netip.ParsePrefix(text)
}

// isLoopback says whether only this machine can reach an address.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// run serves until a signal ends it.
func (f *serveFlags) run(dir string, base []config.Layer) error {
	if err := f.check(); err != nil {
		return err
	}
	sockets, err := fetch.SocketLimit()
	if err != nil {
		return refusal(err)
	}
	f.connections = min(serve.DefaultConnections, sockets/4) // the rest is for crawls
	listener, err := f.listenFor(dir)
	if err != nil {
		return err
	}
	figures := serve.NewFigures()
	svc, err := service.Open(f.Context(), service.Options{
		Dir: dir, Version: version, Log: f.log, MaxCrawls: f.maxCrawls, MaxWorkers: f.maxWorkers,
		Connections: f.connections, MemoryLimit: int64(f.memoryLimit), MinFree: max(int64(f.minFree), leastFree),
		Retention: time.Duration(f.retention), KeepEvents: time.Duration(f.keepEvents),
		KeepAudit: time.Duration(f.keepAudit), Base: base, Observe: figures.Wrote,
	})
	if err != nil {
		_ = listener.Close() // nothing was accepted
	}
	if locked, ok := errors.AsType[*disk.LockedError](err); ok {
		return servedAlready(dir, locked.PID)
	}
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("data directory %s: %w", dir, err)}
	}
	return errors.Join(f.serve(svc, listener, figures), svc.Close())
}

// listenFor listens before anything is made in the data directory: a wrong address leaves nothing behind. If another
// server has the directory, the error names that server first, because it usually has the address too.
func (f *serveFlags) listenFor(dir string) (net.Listener, error) {
	if pid, err := disk.Owner(dir); err == nil && pid != 0 {
		return nil, servedAlready(dir, pid)
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return nil, refusal(fmt.Errorf("cannot listen on %s: %w; --listen gives another address", f.listen, err))
	}
	return listener, nil
}

func servedAlready(dir string, pid int) error {
	return refusal(fmt.Errorf("data directory %s is served by process %d already: one server per data directory", dir,
		pid))
}

// serve answers requests and runs crawls. The first signal drains: event streams end, running crawls stop within their
// grace time, then the server closes. The second ends the process at once.
func (f *serveFlags) serve(svc *service.Service, listener net.Listener, figures *serve.Figures) error {
	ctx := f.Context()
	scheme, rate := "http", cmp.Or(f.rateLimit, -1)
	if f.tls != nil {
		scheme = "https"
	}
	known, err := hosts.New(ctx, svc, f.log)
	if err != nil {
		return &exitError{exitFailed, errors.Join(err, listener.Close())}
	}
	o := serve.Options{Service: svc, Hosts: known, Schedules: schedules.New(svc, f.log),
		Hooks: hooks.New(svc, hooks.Options{UserAgent: "mapwright/" + version, Log: f.log,
			Compute: svc.Shared().Compute, Attempted: figures.Attempted}),
		Version: version, Log: f.log, PublicURL: f.public, Listen: f.listen, TLS: f.tls != nil,
		TrustedProxies: f.proxies, Connections: f.connections, RatePerKey: rate, Figures: figures}
	server, err := serve.New(o)
	if err == nil {
		err = announce(ctx, f.stdio, svc, server, scheme+"://"+listener.Addr().String())
	}
	if err != nil {
		return &exitError{exitFailed, errors.Join(err, listener.Close())}
	}
	running, drain := context.WithCancel(ctx)
	defer drain()
	leaving, stop := onSignals(ctx, f.log, func() { server.Drain(); drain() }, func() { os.Exit(exitInterrupted) })
	defer stop()
	hard, leave := context.WithCancel(leaving) // ended by the second signal
	defer leave()
	listener = server.Limit(listener)
	if f.tls != nil { // outermost: the listener below counts connections before their handshake
		listener = tls.NewListener(listener, f.tls)
	}
	h := server.HTTP()
	var group errgroup.Group
	group.Go(func() error {
		defer drain()
		if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	for _, run := range []func(context.Context){server.Run, o.Hosts.Run, o.Schedules.Run, o.Hooks.Run} {
		group.Go(func() error {
			defer drain()
			run(running)
			return nil
		})
	}
	group.Go(func() error {
		defer drain()
		err := svc.Run(running)
		ctx, cancel := context.WithTimeout(hard, closeWithin)
		defer cancel()
		if h.Shutdown(ctx) != nil {
			_ = h.Close() // cuts off clients that are still connected
		}
		server.Close()
		return err
	})
	if err := group.Wait(); err != nil {
		return &exitError{exitFailed, err}
	}
	return nil
}

// closeWithin is how long answers under way may take when the server closes.
const closeWithin = 5 * time.Second

// announce prints where the data is and where the server listens. Before the first login, it prints a login link too.
func announce(ctx context.Context, io stdio, svc *service.Service, server *serve.Server, address string) error {
	fmt.Fprintf(io.out, "data directory: %s\n", svc.Dir())
	address += server.Base() + "/"
	needed, err := svc.Accounts.NeedsLogin(ctx)
	if err != nil {
		return err
	}
	if needed {
		token, err := svc.Accounts.NewLogin(ctx)
		full, isFull := errors.AsType[*service.Error](err)
		switch {
		case err == nil:
			fmt.Fprintf(io.out, "log in once with this link, within a day: %s\n", server.LoginLink(address, token))
		case isFull && full.Code == service.ErrDiskFull: // crawls can still be read
			fmt.Fprintln(io.out, "the disk is full: make room, and then 'mapwright keys login' prints a login link")
		default:
			return err
		}
	}
	fmt.Fprintf(io.out, "mapwright %s listening on %s\n", version, address)
	return nil
}

// ageFlag is a duration that may be given in days.
type ageFlag time.Duration

func (a *ageFlag) Set(text string) error {
	d, err := config.ParseAge(text)
	*a = ageFlag(d)
	return err
}

func (a *ageFlag) String() string {
	if d := time.Duration(*a); d > 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return time.Duration(*a).String()
}

func (a *ageFlag) Type() string { return "time" }
