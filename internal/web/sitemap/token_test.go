package sitemap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// heldReader gives a text and then nothing, neither more nor its end, before it is released.
type heldReader struct {
	io.Reader
	held    func() // called when the text has been read
	release <-chan struct{}
}

func (h *heldReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n == 0 && err != nil {
		h.held()
		<-h.release
	}
	return n, err
}

// What a file has in memory does not grow with what it sends, and is little: a site may send many files slowly, and
// they are in no budget. The text of each case ends where most is held.
func TestReadHoldsLittle(t *testing.T) {
	const readers, most = 8, 384 << 10 // compressed three times takes 300 KiB, all else half of it
	x, spaces := strings.Repeat("x", 512<<10), strings.Repeat(" ", 512<<10)
	url := "http://a.test/" + x[:maxHeld-20]
	item := "<url><loc>" + url + "</loc>"
	for _, c := range []struct{ name, text string }{
		{"images", ns + item + strings.Repeat("<image:image><image:loc>"+url+"</image:loc></image:image>", 50)},
		{"alternates", ns + item + strings.Repeat(`<xhtml:link rel="alternate" hreflang="a" href="`+url+`"/>`, 50)},
		{"texts", ns + item + "<guid>" + url + "</guid><title>" + x},
		{"text in parts", ns + item + "<guid>" + url + "</guid><title>" +
			strings.Repeat("<![CDATA["+url+"]]><!-- -->"+url, 25)},
		{"white space", ns + item + spaces},
		{"entity", ns + item + "<guid>&" + x},
		{"CDATA", ns + item + "<guid><![CDATA[" + x},
		{"brackets", ns + item + "<guid><![CDATA[" + strings.Repeat("]", 2*maxHeld-10)},
		{"comment", ns + item + "<guid><!--" + x},
		{"value", ns + item + `<guid a="` + url + `" b="` + x},
		{"values", ns + item + "<guid" + strings.Repeat(` a="`+x[:1000]+`"`, maxAttributes/2)},
		{"attributes", ns + item + "<guid" + strings.Repeat(" a", maxAttributes)},
		{"long attributes", ns + item + "<guid" + strings.Repeat(" a:234567890123", maxAttributes)},
		{"names", ns + item + strings.Repeat("<"+x[:2*maxHeld-10]+">", maxNesting-3) + "<" + x[:2*maxHeld-10]},
		{"instruction", "<?xml " + x[:2*maxHeld-10]},
		{"document type", "<!DOCTYPE '" + x[:2*maxHeld-20]},
		{"feed", "<rss><item><link>" + url + "</link><guid>" + url + "</guid><content><![CDATA[" + x},
		{"atom", `<feed><entry><link href="` + url + `"/><link a="` + x},
		{"line", "http://a.test/\n" + x},
		{"short lines", strings.Repeat("http://a.test/\n", 10_000)},
		{"leading white space", spaces},
		{"wide", utf16le(ns + item + "<guid>" + x)},
		{"zipped", unended(t, unended(t, unended(t, ns+item+"<guid>"+x)))},
		{"latin-1", `<?xml version="1.0" encoding="ISO-8859-1"?>` + ns + item + "<guid>" + x},
	} {
		before := inUse()
		var held, ended sync.WaitGroup
		release := make(chan struct{})
		for range readers {
			held.Add(1)
			in := &heldReader{strings.NewReader(c.text), sync.OnceFunc(held.Done), release}
			ended.Go(func() {
				_, err := Read(in, nil, func(*Entry) error { return nil })
				select {
				case <-release:
				default:
					t.Errorf("%s: ended before all was read: %v", c.name, err)
				}
				in.held()
			})
		}
		held.Wait()
		each := (inUse() - before) / readers
		t.Logf("%s: %d KiB of %d", c.name, each>>10, len(c.text)>>10)
		if each > most {
			t.Errorf("%s: a reader holds %d bytes", c.name, each)
		}
		close(release)
		ended.Wait()
		runtime.KeepAlive(c.text)
	}
}

// unended compresses a text, of which more would follow.
func unended(t *testing.T, text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Flush()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func inUse() int {
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
