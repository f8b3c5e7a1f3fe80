package sitemap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// validate runs xmllint over a document with the public schemas, and those of the extensions beside them.
func validate(t *testing.T, schema string, doc []byte) {
	t.Helper()
	dir := conformanceDir(t, "sitemap")
	lint, err := exec.LookPath("xmllint")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("xmllint (Debian's libxml2-utils) is not here: %v", err)
	}
	local, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	public, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	driver := filepath.Join(t.TempDir(), "driver.xsd")
	text := fmt.Sprintf(`<xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema">
		<xsd:import namespace="http://www.sitemaps.org/schemas/sitemap/0.9" schemaLocation="%s/%s"/>
		<xsd:import namespace="http://www.google.com/schemas/sitemap-image/1.1" schemaLocation="%s/image.xsd"/>
		<xsd:import namespace="http://www.w3.org/1999/xhtml" schemaLocation="%s/xhtml.xsd"/></xsd:schema>`, public, schema, local, local)
	if err := os.WriteFile(driver, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(lint, "--noout", "--nonet", "--schema", driver, "-")
	cmd.Stdin = bytes.NewReader(doc)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("xmllint: %v\n%s\n%s", err, out, doc)
	}
}

func sample() []Entry {
	return []Entry{
		{Loc: "https://x.test/?a=1&b='2'", LastMod: time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC), Priority: -1,
			Alternates: []Alternate{{"de", "https://x.test/de?a&b"}, {"x-default", "https://x.test/"}}, Images: []string{"https://x.test/i.png?a&b"}},
		{Loc: "https://x.test/%E2%82%AC", Priority: -1},
	}
}

func write(t *testing.T, o Options, entries []Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	s := NewURLSet(&b, o)
	for i := range entries {
		if err := s.Add(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriteIsValidAndReadsBack(t *testing.T) {
	doc := write(t, Options{Alternates: true, Images: true}, sample())
	_, got, err := readAll(bytes.NewReader(doc))
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("read back %+v, %v", got, err)
	}
	validate(t, "sitemap.xsd", doc)
	validate(t, "sitemap.xsd", write(t, Options{}, sample()))
}

func TestWriteLeavesOutWhatWasNotAskedFor(t *testing.T) {
	doc := string(write(t, Options{}, sample()))
	if strings.Contains(doc, "xhtml") || strings.Contains(doc, "image") {
		t.Error(doc)
	}
}

func TestIndexIsValidAndReadsBack(t *testing.T) {
	var b bytes.Buffer
	parts := []Entry{{Kind: Child, Loc: "https://x.test/sitemap-1.xml", LastMod: time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC), Priority: -1}, {Kind: Child, Loc: "https://x.test/a&b", Priority: -1}}
	if err := WriteIndex(&b, parts); err != nil {
		t.Fatal(err)
	}
	_, got, err := readAll(bytes.NewReader(b.Bytes()))
	if err != nil || !reflect.DeepEqual(got, parts) {
		t.Errorf("read back %+v, %v", got, err)
	}
	validate(t, "siteindex.xsd", b.Bytes())
}

func TestLimits(t *testing.T) {
	var b bytes.Buffer
	s := NewURLSet(&b, Options{MaxURLs: 2})
	for i := range 3 {
		err := s.Add(&Entry{Loc: "https://x.test/"})
		if (i == 2) != errors.Is(err, ErrFull) {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	for _, max := range []int{300, 301, 350, 400} {
		b.Reset()
		s = NewURLSet(&b, Options{MaxBytes: max})
		for s.Add(&Entry{Loc: "https://x.test/"}) == nil {
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if b.Len() > max || s.Len() == 0 {
			t.Errorf("limit %d: %d bytes, %d entries", max, b.Len(), s.Len())
		}
	}
	b.Reset()
	if err := NewURLSet(&b, Options{}).Close(); err != nil || b.Len() != 0 {
		t.Errorf("an empty set wrote %q, %v", b.String(), err)
	}
}
