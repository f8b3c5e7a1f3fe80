package serve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/web/warc"
)

// Results of a crawl are files of its directory. They are replaced as a whole, so a file that is being sent stays as it
// was when the answer began. See sentFiles for how long.

// dir is the directory of the crawl that the path names.
func (c *call) dir() (*service.Crawl, datadir.Dir, error) {
	crawl, err := c.find()
	if err != nil {
		return nil, "", err
	}
	return crawl, c.Service.Crawls.DataDir(crawl.ID), nil
}

// file is the handler of a result that is a file of the crawl's directory.
func file(path func(datadir.Dir) string, kind string) func(*call) error {
	return func(c *call) error {
		crawl, dir, err := c.dir()
		if err != nil {
			return err
		}
		return c.sendFile(crawl, path(dir), kind)
	}
}

// getSitemap sends the XML sitemap or the index over its parts, compressed if the crawl was asked for that.
func (c *call) getSitemap() error {
	crawl, dir, err := c.dir()
	if err != nil {
		return err
	}
	name := "sitemap"
	if plan, err := datadir.ReadPlan(dir); err == nil {
		name = cmp.Or(strings.Join(plan.Settings["sitemap-name"], ""), name)
	}
	path := filepath.Join(string(dir), name+".xml")
	if _, err := os.Stat(path + ".gz"); err == nil {
		path += ".gz"
	}
	return c.sendFile(crawl, path, mediaTypeOf(filepath.Base(path)))
}

const (
	xmlKind     = "application/xml"
	gzipKind    = "application/gzip"
	warcKind    = "application/warc"
	linesKind   = "application/jsonl"
	jsonKind    = "application/json"
	parquetKind = "application/vnd.apache.parquet"
	csvKind     = "text/csv; charset=utf-8"
	htmlKind    = "text/html; charset=utf-8"
)

// getPart sends a part of the XML sitemap, or another file by the name that it has on disk.
func (c *call) getPart() error {
	name := c.r.PathValue("part")
	kind := mediaTypeOf(name)
	if kind == "" {
		return refuse(service.ErrNotFound, "there is no such result of a crawl; /openapi.json lists what there is")
	}
	crawl, dir, err := c.dir()
	if err != nil {
		return err
	}
	if kind == warcKind {
		return c.sendFile(crawl, filepath.Join(dir.Archive(), name), kind)
	}
	return c.sendFile(crawl, filepath.Join(string(dir), name), kind)
}

// mediaTypeOf is the media type of a file that a crawl writes for its users; empty if the name is not that of one.
func mediaTypeOf(name string) string {
	switch name {
	case "sitemap.jsonl", "links.jsonl", datadir.ChangesName, datadir.ProblemsName:
		return linesKind
	case "report.json":
		return jsonKind
	case "sitemap.csv":
		return csvKind
	case datadir.ParquetName, datadir.LinksParquetName, datadir.ProblemsParquetName:
		return parquetKind
	}
	switch {
	case warc.IsName(name) && strings.HasSuffix(name, ".warc.gz"):
		return warcKind
	case !datadir.IsSitemap(name):
		return ""
	case strings.HasSuffix(name, ".gz"):
		return gzipKind
	}
	return xmlKind
}

// sendFile sends a file of a crawl, or the part of it that the client asks for.
func (c *call) sendFile(crawl *service.Crawl, path, kind string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return notThere(crawl, filepath.Base(path))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return notThere(crawl, filepath.Base(path))
	}
	h := c.w.Header()
	sent, ok := c.limits.sending.enter(c.ctx, c.caller.Account.ID)
	if !ok {
		h.Set("Retry-After", "1")
		return refuse(service.ErrRateLimit, "too many files are being sent to this account at once")
	}
	defer sent()
	out := &slowWriter{ResponseWriter: c.w, control: http.NewResponseController(c.w)}
	defer c.sent.add(&sentFile{path: path, info: info, to: out, of: c})()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size()))
	h.Set("Content-Disposition", fmt.Sprintf(`inline; filename="%s-%s"`, crawl.ID, filepath.Base(path)))
	if kind == htmlKind {
		// The page is made of text that crawled servers chose: its own policy allows its one script, and this one lets
		// it have no origin.
		h.Set("Content-Security-Policy", "sandbox allow-scripts; frame-ancestors 'none'")
	}
	if kind != gzipKind && info.Size() >= gzipFrom {
		h.Add("Vary", "Accept-Encoding")
		// A part of a compressed file is of no use, and a client that has the plain file may learn that it is still the
		// same.
		plain := c.r.Header.Get("Range") != "" || strings.Contains(c.r.Header.Get("If-None-Match"), h.Get("ETag"))
		if !plain && c.beginCompressing() {
			defer c.endCompressing()
			h.Set("ETag", fmt.Sprintf(`"%x-%x-gzip"`, info.ModTime().UnixNano(), info.Size()))
			h.Set("Content-Encoding", "gzip")
			h.Del("Content-Length")
			defer out.compress()()
		}
	}
	c.endTurn()
	http.ServeContent(out, c.r, "", info.ModTime(), f)
	if out.badRange {
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", info.Size()))
		return refuse(service.ErrRange, "the file does not have this range")
	}
	return nil
}

// notThere is the error for a result that does not exist, or not yet.
func notThere(crawl *service.Crawl, name string) error {
	detail := fmt.Sprintf("the crawl has no %s", name)
	leftOut := slices.IndexFunc(crawl.Warnings, func(text string) bool {
		return strings.HasPrefix(text, name+" was not written")
	})
	switch {
	case name == "log":
		detail += ": it has not begun"
	case crawl.State == service.Paused:
		detail += " yet: it is paused, and files are written when it ends. Resume it, or cancel it to have the files " +
			"of what was found; /pages lists the pages that are recorded"
	case !crawl.State.Ended():
		detail += fmt.Sprintf(" yet: it is %s, and files are written when it ends; /pages lists the pages that are "+
			"recorded", crawl.State)
	case crawl.StartedAt.IsZero():
		detail += ": it ended before it began"
	case leftOut >= 0:
		detail = crawl.Warnings[leftOut]
	case name == "links.jsonl":
		detail += ": links are kept only by a crawl with the setting links"
	case name == "sitemap.csv":
		detail += ": it is written only by a crawl with the setting csv"
	case name == datadir.ChangesName:
		detail += ": there was no recrawl yet"
	case datadir.IsSitemap(name):
		detail += ": no page is indexable, or its parts or hosts are others; report.json lists the files"
	}
	return &service.Error{Code: service.ErrNotFound, Detail: detail, State: crawl.State}
}

const fileTime = 30 * time.Second // for a client to take one piece of a file

// slowWriter lets an answer take any time as long as the client goes on reading.
type slowWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	badRange bool         // http.ServeContent refused the range: nothing was sent
	gzip     *gzip.Writer // nil if the answer is not compressed
	began    bool         // something was written to gzip
	isCut    atomic.Bool
}

// compress makes the writer compress what is written from now on. end must be called after the last write.
func (s *slowWriter) compress() (end func()) {
	s.gzip = newGzip(writerFunc(s.send))
	return func() {
		if s.began {
			_ = s.gzip.Close() // a client that has gone
		}
	}
}

func (s *slowWriter) WriteHeader(status int) {
	if status == http.StatusRequestedRangeNotSatisfiable {
		s.badRange = true
		return
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *slowWriter) Write(p []byte) (int, error) {
	if s.badRange {
		return len(p), nil
	}
	if s.gzip != nil {
		s.began = true
		return s.gzip.Write(p)
	}
	return s.send(p)
}

func (s *slowWriter) send(p []byte) (int, error) {
	if s.isCut.Load() {
		return 0, errCut
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(fileTime)) // not supported by recorders of tests
	return s.ResponseWriter.Write(p)
}

// cut ends the answer before its end. Another goroutine calls it, again until the answer has ended: one that goes on
// sending at the same moment moves the deadline.
func (s *slowWriter) cut() {
	s.isCut.Store(true)
	_ = s.control.SetWriteDeadline(time.Now())
}

var errCut = errors.New("the file is not sent any more")

// sentFiles are the files that are being sent. A file that is deleted stays on the disk until the client has all of it,
// where it counts for no account, and its client may be slow. So answers end when their crawl is deleted, or when their
// file was replaced twice: a download may outlast the end of one recrawl. They end with their key too.
type sentFiles struct {
	mu  sync.Mutex
	all map[*sentFile]bool // guarded by mu
}

// sentFile is a file that is being sent.
type sentFile struct {
	path string
	info os.FileInfo
	next os.FileInfo // of the file that has replaced it; nil if none has. Used by sweep
	to   *slowWriter
	of   *call
}

// add notes that a file is being sent, until remove is called.
func (s *sentFiles) add(one *sentFile) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*sentFile]bool{}
	}
	s.all[one] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, one)
	}
}

// sweep ends the answers whose files are not kept any more, or whose keys have ended. One goroutine calls it.
func (s *sentFiles) sweep() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	all = slices.DeleteFunc(all, func(f *sentFile) bool { return f.isKept() && !f.of.hasEnded() })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range all {
		if s.all[one] { // its answer has not ended
			one.to.cut()
		}
	}
}

// isKept says whether the file is there, or was replaced by the one that is there.
func (f *sentFile) isKept() bool {
	now, err := os.Stat(f.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	if f.next == nil {
		if os.SameFile(f.info, now) {
			return true
		}
		f.next = now
	}
	// The number of a file that was deleted may be given to another.
	return os.SameFile(f.next, now) && f.next.ModTime().Equal(now.ModTime())
}

// getLog sends the last lines of the crawl's log.
func (c *call) getLog() error {
	q := c.query()
	lines := q.number("lines", 1, 10000, 1000)
	if err := q.done(); err != nil {
		return err
	}
	crawl, dir, err := c.dir()
	if err != nil {
		return err
	}
	f, err := os.Open(dir.Log())
	if errors.Is(err, fs.ErrNotExist) {
		return notThere(crawl, "log")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := tail(f, lines)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = c.w.Write(text) // a client that has gone
	return nil
}

// tail reads the last lines of a file, at most 4 MiB of them.
func tail(f *os.File, lines int) ([]byte, error) {
	const most = 4 << 20
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, size-most)
	text := make([]byte, size-from)
	if n, err := f.ReadAt(text, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else if text = text[:n]; from > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for ; lines > 0 && at >= 0; lines-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	return text[at+1:], nil
}
