package layout

import (
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mapwright/mapwright"

// allowedImports says which packages of this module a package may import. A package that is not named here may not exist: adding
// one is a decision, and this is where it is written down. "*" means any.
var allowedImports = map[string][]string{
	"cmd/mapwright":                {"*"},
	"frontier":                     {"frontier/dedup", "frontier/pace", "internal/urlnorm"},
	"frontier/dedup":               {"internal/urlnorm"},
	"frontier/pace":                {},
	"state":                        {"frontier", "state/internal/badgerfiles", "state/internal/keyset", "state/internal/record", "state/internal/txn", "wal", "internal/disk", "internal/urlnorm"},
	"state/internal/badgerfiles":   {"internal/disk"},
	"state/internal/keyset":        {"internal/urlnorm"},
	"state/internal/record":        {"frontier", "internal/disk", "internal/urlnorm"},
	"state/internal/txn":           {},
	"wal":                          {},
	"parser":                       {"internal/htmltree", "internal/urlnorm"},
	"bench":                        {"*"},
	"bench/record":                 {"bench"},
	"internal/config":              {"parser", "internal/fetch", "internal/urlnorm"},
	"internal/crawl":               {"frontier", "frontier/pace", "state", "wal", "parser", "internal/config", "internal/fetch", "internal/robots", "internal/sitemap", "internal/seed", "internal/urlnorm", "internal/metrics", "internal/export", "internal/page", "internal/slot"},
	"internal/disk":                {"wal"},
	"internal/e2e":                 {"*"},
	"internal/export":              {"state", "internal/disk", "internal/page", "internal/sitemap", "internal/urlnorm"},
	"internal/fetch":               {"internal/urlnorm"},
	"internal/htmltree":            {},
	"internal/layout":              {},
	"internal/metrics":             {},
	"internal/page":                {"internal/urlnorm"},
	"internal/robots":              {},
	"internal/seed":                {"internal/fetch", "internal/robots", "internal/sitemap", "internal/urlnorm"},
	"internal/sitemap":             {},
	"internal/sitemap/sitemaptest": {},
	"internal/slot":                {},
	"internal/testweb":             {},
	"internal/testweb/cmd/testweb": {"internal/testweb"},
	"internal/urlnorm":             {},
	"internal/view":                {"internal/crawl", "internal/view/mute"},
	"internal/view/mute":           {},
}

func TestImportDirections(t *testing.T) {
	for dir, pkg := range packages(t) {
		allowed, known := allowedImports[dir]
		if !known {
			t.Errorf("%s: a package that allowedImports does not name", dir)
			continue
		}
		for _, imp := range pkg.Imports {
			rel, ours := strings.CutPrefix(imp, module+"/")
			if !ours || slices.Contains(allowed, "*") || slices.Contains(allowed, rel) {
				continue
			}
			t.Errorf("%s imports %s, which allowedImports does not allow", dir, rel)
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	for dir, pkg := range packages(t) {
		if pkg.Doc == "" {
			t.Errorf("%s: no doc comment attached to a package clause", dir)
		}
		want := "Package " + pkg.Name
		if pkg.Name == "main" {
			want = "Command " + filepath.Base(dir)
		}
		if !strings.HasPrefix(docText(t, dir), want) {
			t.Errorf("%s: the package comment does not begin with %q", dir, want)
		}
	}
}

// packages finds every package of the module that has non-test files, by directory relative to the root.
func packages(t *testing.T) map[string]*build.Package {
	t.Helper()
	found := map[string]*build.Package{}
	walk := func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root(t), path)
		if err != nil {
			return err
		}
		if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if rel != "." {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir // a module of its own
			}
		}
		pkg, err := build.ImportDir(path, 0)
		if err != nil {
			if _, none := err.(*build.NoGoError); none {
				return nil
			}
			return err
		}
		if len(pkg.GoFiles) > 0 {
			found[filepath.ToSlash(rel)] = pkg
		}
		return nil
	}
	if err := filepath.WalkDir(root(t), walk); err != nil {
		t.Fatal(err)
	}
	if len(found) < 2 {
		t.Fatalf("found only %d packages: the walk is broken", len(found))
	}
	return found
}

// docText is the package comment of dir, whichever file carries it.
func docText(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc != nil {
			return file.Doc.Text()
		}
	}
	return ""
}

// root is the module's directory, two above this one.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
