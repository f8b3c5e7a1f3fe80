package state

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
)

// testdata/v2.tar.gz holds two directories of format version 2: one of a store
// that was closed, and one of a store that was killed. They must open for ever, and
// hold what contents.txt beside them says.
// It was made by this test with STATE_GOLDEN=v2 in the environment; a new
// version of the format gets a file of its own, beside this one. v2-visits.tar.gz was
// made later, with all that visits after the first record. v1.tar.gz holds
// the same of format version 1, which is refused.
const (
	goldenSeed     = 100
	goldenRecords  = 120
	goldenEnv      = "STATE_GOLDEN"
	goldenContents = "contents.txt"
)

func TestGolden(t *testing.T) {
	if v := os.Getenv(goldenEnv); v != "" {
		makeGolden(t, filepath.Join("testdata", v+".tar.gz"))
	}
	for name, refused := range map[string]bool{"v1.tar.gz": true, "v2.tar.gz": false, "v2-visits.tar.gz": false} {
		root := t.TempDir()
		unpack(t, filepath.Join("testdata", name), root)
		for _, life := range []string{"closed", "killed"} {
			t.Run(name+"/"+life, func(t *testing.T) {
				if refused {
					checkRefused(t, filepath.Join(root, life))
					return
				}
				want, err := os.ReadFile(filepath.Join(root, goldenContents))
				if err != nil {
					t.Fatal(err)
				}
				checkGolden(t, open(t, filepath.Join(root, life), Options{Mode: ExistingOnly}), string(want),
					life == "killed")
			})
		}
	}
}

// checkRefused wants a store of format version 1 to be refused and left as it is.
func checkRefused(t *testing.T, dir string) {
	t.Helper()
	files := os.DirFS(dir)
	list := func() (all []string) {
		err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := fs.ReadFile(files, name)
			all = append(all, name+" "+string(content))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := list()
	s, err := Open(dir, Options{Mode: ExistingOnly})
	if err == nil {
		s.Close()
	}
	if e := wantErrAs[*VersionError](t, err); e.Found != 1 || e.Known != record.Version {
		t.Errorf("refused with %v", err)
	}
	if !slices.Equal(list(), want) {
		t.Error("the directory was changed")
	}
}

func checkGolden(t *testing.T, s *Store, want string, killed bool) {
	t.Helper()
	// Before anything else is written: what the log holds since the checkpoint.
	_, at := s.Snapshots()
	evidence := ""
	err := s.EvidenceSince(t.Context(), at, func(_ frontier.Position, run uint64,
		e frontier.Evidence) {
		evidence += fmt.Sprintln(run, brief(e))
	})
	if err != nil || evidence != "2 {Partition:3 Kind:4 Subject:5 Words:[1:6]}\n" {
		t.Errorf("evidence %q, %v", evidence, err)
	}
	keys := 0
	for _, err := range s.KeysSince(t.Context(), at) {
		if err != nil {
			t.Fatal(err)
		}
		keys++
	}
	if keys == 0 {
		t.Error("no keys in the log since the checkpoint")
	}
	if got := dumpContents(t, s); got != want {
		t.Errorf("it holds something else; the first line that differs:\n%s", firstDifference(got, want))
	}
	if got := readSnapshots(t, s); got != "filter/2=bits sealed/1=layer " {
		t.Errorf("snapshots %q", got)
	}
	if got, err := s.received(t.Context(), 3, [16]byte{15: 1}); err != nil || got != 9 {
		t.Errorf("batch %d, %v", got, err)
	}
	r := s.Recovery()
	if r.Unclean != killed || (r.Applied > 0) != killed || s.Seed() != modelSeed {
		t.Errorf("recovery %+v, seed %d", r, s.Seed())
	}
	wantEnds, wantAlone := 1, 0
	if killed {
		wantEnds, wantAlone = 2, 1
	}
	if n, alone := s.UncleanEnds(key(1)); n != wantEnds || alone != wantAlone {
		t.Errorf("%d unclean ends, %d alone; want %d and %d", n, alone, wantEnds, wantAlone)
	}
}

// dumpContents writes down all that a store says of URLs, hosts, origins and the crawl. Fields and counters that are
// zero are left out, so that those added later do not change it.
func dumpContents(t *testing.T, s *Store) string {
	t.Helper()
	ctx := t.Context()
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	put := func(what string, values ...any) {
		b.WriteString(what)
		for _, v := range values {
			// The golden texts are older than NamedIn.Named, which follows from its other fields there.
			b.WriteString(" " + strings.ReplaceAll(brief(v), "Named:true ", ""))
		}
		b.WriteString("\n")
	}
	for p, err := range s.Pages(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		put("page", p.Link, p.Finish)
		if p.Finish != nil && p.Finish.KeepFacts {
			put("kept", p.Link.Key, p.FactsGeneration, p.VisitFacts)
		}
		if p.Linked != (NamedIn{}) || p.Listed != (NamedIn{}) {
			put("named", p.Link.Key, p.Linked, p.Listed)
		}
	}
	scan := func(family byte, fn func(key []byte)) {
		if err := s.view.scan([]byte{family}, func(key, _ []byte) error { fn(key); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	var sitemaps []weburl.Key
	named, _ := record.Families(true)
	scan(named, func(key []byte) {
		k, _ := record.ParseURLKey(key)
		sitemaps = append(sitemaps, k)
	})
	list, err := s.ReadSitemaps(ctx, sitemaps)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if f := list[i].Finish; f != nil && f.Generation == list[i].FactsGeneration {
			list[i].FactsGeneration = 0 // it was not in the first golden directories
		}
		list[i].FactsAt = time.Time{} // it was in none of them
		put("sitemap", list[i])
	}
	for c, err := range s.Changes(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		put("change", c)
	}
	for backlog, err := range s.Backlogs(ctx, 0, 255) {
		if err != nil {
			t.Fatal(err)
		}
		put("pending", backlog.Fact, drain(t, s, backlog.Fact.Host, 50))
	}
	scan(record.FamHost, func(key []byte) {
		fact, ok, err := s.Host(ctx, weburl.HostID(binary.BigEndian.Uint64(key[1:])))
		put("host", fact, ok, err == nil)
	})
	scan(record.FamOrigin, func(key []byte) {
		fact, ok, err := s.Origin(ctx, weburl.HostID(binary.BigEndian.Uint64(key[1:])), string(key[9:]))
		put("origin", fact, ok, err == nil)
	})
	facts := s.Facts()
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		put("fact", name, facts[name])
	}
	for p := range record.Partitions {
		if c := s.PartitionCounters(uint8(p)); c != (Counters{}) {
			put("partition", p, c)
		}
	}
	return b.String()
}

// brief writes a value without what is zero in it.
func brief(v any) string {
	switch v := v.(type) {
	case fmt.Stringer: // times and URLs
		return v.String()
	case []byte:
		return fmt.Sprintf("%x", v)
	}
	r := reflect.ValueOf(v)
	var parts []string
	switch r.Kind() {
	case reflect.Pointer:
		if r.IsNil() {
			return "-"
		}
		return brief(r.Elem().Interface())
	case reflect.Struct:
		for i := range r.NumField() {
			if f := r.Type().Field(i); f.IsExported() && !r.Field(i).IsZero() {
				parts = append(parts, f.Name+":"+brief(r.Field(i).Interface()))
			}
		}
		return "{" + strings.Join(parts, " ") + "}"
	case reflect.Slice, reflect.Array:
		for i := range r.Len() {
			if !r.Index(i).IsZero() {
				parts = append(parts, fmt.Sprint(i, ":", brief(r.Index(i).Interface())))
			}
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(v)
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "got  " + a[i] + "\nwant " + b[i]
		}
	}
	return fmt.Sprintf("%d and %d lines", len(a), len(b))
}

func makeGolden(t *testing.T, path string) {
	t.Helper()
	s, err := Open(t.TempDir()+"/store", still())
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(goldenSeed)
	commit(t, s, frontier.Record{Leased: []weburl.Key{key(1), key(2)}})
	s = crash(t, s)
	commit(t, s, frontier.Record{Leased: []weburl.Key{key(1)}, Returned: []weburl.Key{key(2)}})
	commit(t, s, frontier.Record{Alone: []weburl.Key{key(1)}})
	for m.n < goldenRecords {
		commit(t, s, m.record())
		if m.n == goldenRecords/2 {
			err := s.Checkpoint(t.Context(), func(w *SnapshotWriter) error {
				return errors.Join(w.Put("filter", 2, text("bits")), w.Put("sealed", 1, text("layer")))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	commit(t, s, frontier.Record{
		Evidence: []frontier.Evidence{{Partition: 3, Kind: 4, Subject: 5, Words: []uint64{0, 6}}},
		Marks:    []frontier.Mark{{Partition: 3, Session: [16]byte{15: 1}, Batch: 9}},
		Sent:     []frontier.Link{{Key: key(7), URL: mustURL("https://sent.example/"), Depth: 2}},
	})
	for h := range m.order {
		if rec, ok := low(t, s, h); ok {
			commit(t, s, rec)
		}
	}
	m.check(t, s)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, goldenContents), []byte(dumpContents(t, s)), 0o644); err != nil {
		t.Fatal(err)
	}
	copyDir(t, s.dir, filepath.Join(root, "killed"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	copyDir(t, s.dir, filepath.Join(root, "closed"))
	pack(t, root, path)
}

func pack(t *testing.T, dir, path string) {
	t.Helper()
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(rel), Mode: 0o644,
			Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close(), os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if !strings.HasPrefix(name, dir) {
			t.Fatalf("odd name %s", h.Name)
		}
		content, err := io.ReadAll(r)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}
