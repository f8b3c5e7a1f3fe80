package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service/db"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// Options are what a service needs.
type Options struct {
	Dir     string // the data directory; it is made if it is not there
	Version string
	Log     *slog.Logger // nil means none

	// RecordsOnly opens the database without the right to run crawls, as for a command that makes a key. Another
	// process may run them meanwhile.
	RecordsOnly bool

	MaxCrawls   int           // crawls that run at once; 0 means 4
	MaxWorkers  int           // requests of all crawls at once; 0 means 512
	Connections int           // sockets that clients of the service may use, and crawls may not
	MemoryLimit int64         // bytes for the budgets of all crawls; 0 means 2 GiB
	MinFree     int64         // bytes of disk below which crawls pause and Add refuses; 0: 1 GiB, negative: no look
	Retention   time.Duration // how long an ended crawl is kept; 0 means for ever
	KeepEvents  time.Duration // how long events are kept; 0 means for ever
	KeepAudit   time.Duration // how long entries of the audit log are kept; 0 means for ever
	// Base has the settings of the operator for all crawls, the lowest layer first. They are laid over the service's
	// own defaults: links and near-duplicates are on.
	Base []config.Layer

	// Observe, when not nil, is called with the time that each writing transaction took.
	Observe func(time.Duration)
	// Fetcher, when not nil, makes the requests of all crawls.
	Fetcher fetch.Fetcher
	// SlotDir is the directory of the slot of safe crawls. Empty means that of the machine.
	SlotDir string
	// FreeBytes, when not nil, says how much of the disk is free, instead of the system.
	FreeBytes func(dir string) (int64, error)

	trial time.Duration // how long a trial takes; zero means trialTime
}

// LeastMemory is the least part of Options.MemoryLimit for each of Options.MaxCrawls, in bytes: with less, the budgets
// that a crawl has at least exceed its part, and it may hold too few hosts for an ordinary site.
const LeastMemory = 4 << 20

func (o *Options) setDefaults() {
	o.Base = slices.Concat([]config.Layer{ownDefaults()}, o.Base)
	o.MaxCrawls, o.MaxWorkers = cmp.Or(o.MaxCrawls, 4), cmp.Or(o.MaxWorkers, 512)
	o.MemoryLimit, o.MinFree = cmp.Or(o.MemoryLimit, 2<<30), cmp.Or(o.MinFree, 1<<30)
	if o.RecordsOnly {
		o.MinFree = -1 // the operator uses it, whatever the server asks for
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.FreeBytes == nil {
		o.FreeBytes = disk.FreeBytes
	}
}

// ownDefaults are the settings in which a crawl of the service differs from one of the command line. Its pages show
// links in and out, and all problems of a site. It does not speak HTTP/2: nothing bounds well what a server's frames cost
// the other accounts, and every server speaks HTTP/1.1 too.
func ownDefaults() config.Layer {
	is := func(text string) config.Given {
		return config.Given{Texts: []string{text}, From: "default of the service"}
	}
	return config.Layer{"links": is("true"), "near-duplicates": is("true"), "http2": is("false")}
}

// validate names every fault of the options.
func (o *Options) validate() error {
	var faults []error
	bad := func(is bool, text string) {
		if is {
			faults = append(faults, errors.New(text))
		}
	}
	bad(o.Dir == "", "no data directory")
	bad(o.MaxCrawls < 0, "a negative number of crawls at once")
	bad(o.MaxWorkers < 0, "a negative number of workers")
	bad(o.MemoryLimit < 0, "a negative memory limit")
	bad(o.Retention < 0, "a negative retention")
	bad(o.KeepEvents < 0 || o.KeepAudit < 0, "a negative time to keep events or the audit log")
	if err := CheckBase(o.Base); err != nil {
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("service options: %w", err)
	}
	return nil
}

// CheckBase names every fault of settings for all crawls.
func CheckBase(layers []config.Layer) error {
	loaded, err := config.Load(layers...)
	if err != nil {
		return err
	}
	if names := loaded.Settings.PrivateHeaders(); len(names) > 0 && len(loaded.Settings.HeaderTo) == 0 {
		return fmt.Errorf("header %s needs header_to, the origins that get it: users of the service start crawls "+
			"anywhere, and the header may be a credential", names[0])
	}
	for _, e := range loaded.Settings.Table() {
		if e.Local && e.Name != "ca-file" && e.Value.String() != "" {
			return fmt.Errorf("%s cannot be set for a service: users of the service start crawls anywhere",
				config.FileKey(e.Name))
		}
	}
	if err := crawl.CheckAccess(loaded.Settings); err != nil {
		return err
	}
	return nil
}

// Service is an open service. Its parts may be used by any goroutine until Close.
type Service struct {
	Crawls   *Crawls
	Accounts *Accounts
	Events   *Events

	o      Options
	db     *db.DB
	lock   *disk.Lock    // of the data directory; nil with RecordsOnly
	shared *crawl.Shared // nil with RecordsOnly
}

// Open opens the service of a data directory. The error is a *disk.LockedError if another process runs it.
func Open(ctx context.Context, o Options) (*Service, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	s := &Service{o: o}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Service) open(ctx context.Context) (err error) {
	if !s.o.RecordsOnly {
		if s.lock, err = disk.Acquire(s.o.Dir); errors.Is(err, syscall.ENOSPC) && db.ReleaseReserve(s.o.Dir) {
			s.lock, err = disk.Acquire(s.o.Dir)
		}
		if err != nil {
			return err
		}
		if s.shared, err = crawl.NewShared(s.o.shared()); err != nil {
			return err
		}
	}
	if s.db, err = db.Open(ctx, db.Options{Dir: s.o.Dir, Observe: s.o.Observe, Log: s.o.Log}); err != nil {
		return err
	}
	s.Events = newEvents(s.db)
	s.Accounts = &Accounts{s: s}
	s.Crawls = newCrawls(s)
	return s.Accounts.makeDefaults(ctx)
}

// Close closes the database. Run must have returned.
func (s *Service) Close() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.shared != nil {
		errs = append(errs, s.shared.Close())
		s.shared = nil
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Release())
		s.lock = nil
	}
	return errors.Join(errs...)
}

// DB is the database, for parts of the service in other packages.
func (s *Service) DB() *db.DB { return s.db }

// Shared is what all crawls share; nil with RecordsOnly.
func (s *Service) Shared() *crawl.Shared { return s.shared }

// Dir is the data directory.
func (s *Service) Dir() string { return s.o.Dir }

func (s *Service) crawlsDir() string { return filepath.Join(s.o.Dir, "crawls") }
func (s *Service) trashDir() string  { return filepath.Join(s.o.Dir, "trash") }

// Tx is a transaction that writes, and the events that it records.
type Tx struct {
	*sql.Tx
	ctx    context.Context
	now    time.Time
	events []Event // that were recorded
}

// Add is Write for a caller who asks for more: a crawl, a run, a setting, a key. It refuses that while less than
// --min-free is free. What is left is for Write: for what the service itself records, and for callers who end or delete
// something.
func (s *Service) Add(ctx context.Context, fn func(tx *Tx) error) error {
	if err := s.mayAdd(); err != nil {
		return err
	}
	return s.Write(ctx, fn)
}

// mayAdd refuses what Add refuses.
func (s *Service) mayAdd() error {
	lack, err := disk.Space{Min: s.o.MinFree, Free: s.o.FreeBytes}.Lack(s.o.Dir, 0)
	if err != nil {
		s.o.Log.Warn("cannot see how much of the disk is free", "error", err)
	} else if lack > 0 {
		return &Error{Code: ErrDiskFull, Detail: fmt.Sprintf("less than %s of the server's disk is free, so nothing can "+
			"be added or started: delete crawls that are not needed, or try again later",
			humanize.IBytes(uint64(s.o.MinFree)))}
	}
	return nil
}

// Write runs a transaction. When it is durable, Write wakes those who wait for events, if it recorded any. The error is
// an *Error if the disk is full.
func (s *Service) Write(ctx context.Context, fn func(tx *Tx) error) error {
	var last *Tx
	err := s.db.Write(ctx, func(sqlTx *sql.Tx) error {
		last = &Tx{Tx: sqlTx, ctx: ctx, now: time.Now()}
		return fn(last)
	})
	if db.IsFull(err) {
		s.o.Log.Error("the disk is full: make room for the database", "error", err)
		return &Error{Code: ErrDiskFull, Detail: "the server's disk is full: its operator must make room"}
	}
	if err != nil || len(last.events) == 0 {
		return err
	}
	s.Events.tell()
	for _, e := range last.events {
		s.o.Log.Info(string(e.Type), "crawl", e.Crawl, "generation", e.Generation, "account", e.Account, "data",
			string(e.Data))
	}
	return nil
}

// Exec runs a statement and returns how many rows it changed.
func (tx *Tx) Exec(query string, args ...any) (int64, error) {
	res, err := tx.ExecContext(tx.ctx, query, stored(args)...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Change runs a statement.
func (tx *Tx) Change(query string, args ...any) error {
	_, err := tx.Exec(query, args...)
	return err
}

// Insert adds a row. Columns have commas between them.
func (tx *Tx) Insert(table, columns string, values ...any) error {
	return tx.Change("INSERT INTO "+table+" ("+columns+") VALUES (?"+strings.Repeat(", ?", len(values)-1)+")",
		values...)
}

// Put adds a row, or replaces the values of the row with the same key.
func (tx *Tx) Put(table, key, columns string, values ...any) error {
	var set []string
	for name := range strings.SplitSeq(columns, ", ") {
		set = append(set, name+" = excluded."+name)
	}
	return tx.Change("INSERT INTO "+table+" ("+columns+") VALUES (?"+strings.Repeat(", ?", len(values)-1)+
		") ON CONFLICT ("+key+") DO UPDATE SET "+strings.Join(set, ", "), values...)
}

// Queryer is a database or a transaction.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Bounds on readers.
const (
	// Readers is how many queries run at the same time. All accounts share them.
	Readers = db.Readers
	// PartBytes bounds one part of a list: answers are whole in memory, several times while they are sent.
	PartBytes = 4 << 20
)

// Collect reads all rows of a query. Dest says where the columns of a row go. Times are stored as milliseconds; lists,
// maps and structs as JSON.
func Collect[T any](ctx context.Context, q Queryer, dest func(*T) []any, query string,
	args ...any) (items []T, err error) {
	rows, err := q.QueryContext(ctx, query, stored(args)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	items = []T{}
	for rows.Next() {
		var item T
		to := dest(&item)
		for i, v := range to {
			if of := reflect.TypeOf(v).Elem(); of != reflect.TypeFor[[]byte]() && isEncoded(of) {
				to[i] = decoder{v}
			}
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, rows.Err()
}

// One reads the first row of a query. The error is [sql.ErrNoRows] if there is none.
func One[T any](ctx context.Context, q Queryer, dest func(*T) []any, query string, args ...any) (item T, err error) {
	items, err := Collect(ctx, q, dest, query, args...)
	if err == nil && len(items) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return item, err
	}
	return items[0], nil
}

// Value reads a query that has one row with one column.
func Value[T any](ctx context.Context, q Queryer, query string, args ...any) (T, error) {
	return One(ctx, q, Column[T], query, args...)
}

// Column is the destination of rows with one column, for Collect.
func Column[T any](v *T) []any { return []any{v} }

// isEncoded says whether values of a type are stored in another form.
func isEncoded(t reflect.Type) bool {
	return slices.Contains([]reflect.Kind{reflect.Slice, reflect.Map, reflect.Pointer, reflect.Struct}, t.Kind())
}

// stored are the arguments of a statement in the form that is stored.
func stored(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		switch v := arg.(type) {
		case time.Time:
			out[i] = Millis(v)
		case page.Time:
			out[i] = Millis(v.Time)
		case json.RawMessage:
			out[i] = string(v)
		default:
			if isEncoded(reflect.TypeOf(v)) {
				out[i] = strings.TrimPrefix(ToJSON(v), "null")
			}
		}
	}
	return out
}

// decoder reads a column that is stored in another form.
type decoder struct{ to any }

// Scan implements [sql.Scanner].
func (d decoder) Scan(column any) error {
	text, _ := column.(string)
	switch to := d.to.(type) {
	case *page.Time:
		ms, _ := column.(int64)
		*to = TimeOf(ms)
	case *json.RawMessage:
		*to = json.RawMessage(text)
		if text == "" {
			*to = nil
		}
	default:
		return FromJSON(text, to)
	}
	return nil
}

// Join puts texts together.
func Join[T ~string](texts []T, separator string) string {
	plain := make([]string, len(texts))
	for i, text := range texts {
		plain[i] = string(text)
	}
	return strings.Join(plain, separator)
}

// Millis is a time as it is stored.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// TimeOf is a stored time.
func TimeOf(ms int64) page.Time {
	if ms == 0 {
		return page.Time{}
	}
	return page.Time{Time: time.UnixMilli(ms).UTC()}
}

// ToJSON encodes a value. It panics if the type cannot be encoded.
func ToJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // only values of types that can be encoded are passed
	}
	return string(text)
}

// FromJSON reads what ToJSON has written. An empty text is no value.
func FromJSON(text string, v any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("read stored JSON: %w", err)
	}
	return nil
}

// NewID makes an id of lower-case letters and digits. It begins with the time, to about 15 ns. So an id that is made
// later is greater, and lists that are ordered by it have the order in which things were made.
func NewID() string {
	var b [15]byte
	now := uint64(time.Now().UnixNano())
	const milli = uint64(time.Millisecond)
	binary.BigEndian.PutUint64(b[:8], now/milli<<16|now%milli<<16/milli)
	_, _ = rand.Read(b[8:]) // it never fails
	return encodeID(b[:])
}

func encodeID(b []byte) string {
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// isID says whether a text has the form of an id.
func isID(text string) bool {
	if len(text) != 24 {
		return false
	}
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'v') {
			return false
		}
	}
	return true
}
