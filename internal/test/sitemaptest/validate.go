package sitemaptest

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed *.xsd
var extensions embed.FS

const driver = `<xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema">
<xsd:import namespace="http://www.sitemaps.org/schemas/sitemap/0.9" schemaLocation="%s"/>
<xsd:import namespace="http://www.google.com/schemas/sitemap-image/1.1" schemaLocation="image.xsd"/>
<xsd:import namespace="http://www.google.com/schemas/sitemap-news/0.9" schemaLocation="news.xsd"/>
<xsd:import namespace="http://www.google.com/schemas/sitemap-video/1.1" schemaLocation="video.xsd"/>
<xsd:import namespace="http://www.w3.org/1999/xhtml" schemaLocation="xhtml.xsd"/>
</xsd:schema>`

// Dir finds the conformance data of sitemaps. A test without it skips, except in CI, where that is a failure.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := data(t)
	if err != nil {
		failInCI(t, "conformance data", err)
		t.Skipf("conformance data is not here: %v", err)
	}
	return dir
}

func data(t testing.TB) (string, error) {
	t.Helper()
	dir := os.Getenv("CONFORMANCE_DIR")
	if dir == "" {
		dir = filepath.Join(root(t), "..", "shared", "conformance")
	}
	dir, err := filepath.Abs(filepath.Join(dir, "sitemap"))
	if err == nil {
		_, err = os.Stat(dir)
	}
	return dir, err
}

// root is the module's directory.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("no go.mod above the test: %v", err)
	return ""
}

func failInCI(t testing.TB, what string, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %v", what, err)
	}
}

// Files validates files: urlsets, or indexes where the root element says so, compressed where the name says so.
func Files(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		text, err := read(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		Document(t, path, text)
	}
}

func read(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return text, err
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Document validates one document. The name is for the messages. Without the schemas or xmllint it looks only whether
// the document is well-formed, so that the rest of the test still runs; in CI that is a failure.
func Document(t testing.TB, name string, text []byte) {
	t.Helper()
	public, err := data(t)
	lint, noLint := exec.LookPath("xmllint") // of Debian's libxml2-utils
	if err := errors.Join(err, noLint); err != nil {
		failInCI(t, "schemas and xmllint", err)
		t.Logf("%s is not validated: %v", name, err)
		wellFormed(t, name, text)
		return
	}
	schema := filepath.Join(public, "sitemap.xsd")
	if bytes.Contains(text[:min(len(text), 1000)], []byte("<sitemapindex")) {
		schema = filepath.Join(public, "siteindex.xsd")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, extensions); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "driver.xsd"), fmt.Appendf(nil, driver, schema), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(lint, "--noout", "--nonet", "--schema", filepath.Join(dir, "driver.xsd"), "-")
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s\n%.2000s", name, err, out, text)
	}
}

func wellFormed(t testing.TB, name string, text []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Errorf("%s: %v\n%.2000s", name, err, text)
			return
		}
	}
}
