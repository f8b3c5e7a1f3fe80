// Package warctest reads WARC files for tests. It is strict: each record must be one gzip member in the form of WARC
// 1.1, and its digests must be right.
package warctest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Record is one record.
type Record struct {
	Type, URL string
	Header    textproto.MIMEHeader
	Block     []byte
	Body      []byte         // of an HTTP answer, in its Content-Encoding
	Answer    *http.Response // of a response record, and of a revisit record with a block; without its body
}

// ReadDir reads all WARC files of a directory, in the order of their names.
func ReadDir(t testing.TB, dir string) (all []Record) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.warc.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		records, err := Read(text)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if len(records) == 0 || records[0].Type != "warcinfo" {
			t.Fatalf("%s: %d records, and the first is no warcinfo", path, len(records))
		}
		all = append(all, records...)
	}
	return all
}

// Read reads the records of a file.
func Read(file []byte) (all []Record, err error) {
	in := bufio.NewReader(bytes.NewReader(file))
	for {
		zip, err := gzip.NewReader(in)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		zip.Multistream(false)
		text, err := io.ReadAll(zip)
		if err != nil {
			return all, err
		}
		r, err := parse(text)
		if err != nil {
			return all, fmt.Errorf("record %d: %w", len(all), err)
		}
		all = append(all, r)
	}
}

func parse(text []byte) (r Record, err error) {
	rest, ok := bytes.CutPrefix(text, []byte("WARC/1.1\r\n"))
	if !ok {
		return r, fmt.Errorf("it begins with %.20q", text)
	}
	head, block, _ := bytes.Cut(rest, []byte("\r\n\r\n"))
	if r.Header, err = textproto.NewReader(bufio.NewReader(bytes.NewReader(append(head,
		"\r\n\r\n"...)))).ReadMIMEHeader(); err != nil {
		return r, err
	}
	r.Type, r.URL = r.Header.Get("WARC-Type"), r.Header.Get("WARC-Target-URI")
	length, err := strconv.Atoi(r.Header.Get("Content-Length"))
	if err != nil || len(block) != length+4 || !bytes.HasSuffix(block, []byte("\r\n\r\n")) {
		return r, fmt.Errorf("a block of %d bytes and Content-Length %q: %w", len(block),
			r.Header.Get("Content-Length"),
			err)
	}
	r.Block = block[:length]
	if sum := digest(r.Block); sum != r.Header.Get("WARC-Block-Digest") {
		return r, fmt.Errorf("the block digest is %s, and the header says %s", sum, r.Header.Get("WARC-Block-Digest"))
	}
	for _, name := range []string{"WARC-Record-ID", "WARC-Date"} {
		if r.Header.Get(name) == "" {
			return r, fmt.Errorf("%s is missing", name)
		}
	}
	if r.Type != "response" && (r.Type != "revisit" || len(r.Block) == 0) {
		return r, nil
	}
	if r.Answer, err = http.ReadResponse(bufio.NewReader(bytes.NewReader(r.Block)), nil); err != nil {
		return r, err
	}
	_, r.Body, _ = bytes.Cut(r.Block, []byte("\r\n\r\n"))
	if sum := digest(r.Body); r.Type == "response" && sum != r.Header.Get("WARC-Payload-Digest") {
		return r, fmt.Errorf("the payload digest is %s, and the header says %s", sum,
			r.Header.Get("WARC-Payload-Digest"))
	}
	return r, nil
}

func digest(b []byte) string {
	sum := sha1.Sum(b)
	return "sha1:" + base32.StdEncoding.EncodeToString(sum[:])
}
