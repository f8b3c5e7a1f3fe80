package layout

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mapwright/mapwright"

// allowedImports says which packages of this module a package may import. A package that is not named here may not
// exist: adding one is a decision, and this is where it is written down. "*" means any.
var allowedImports = map[string][]string{
	"cmd/mapwright": {"*"},
	"frontier": {"frontier/dedup", "frontier/internal/jobs", "frontier/internal/limit",
		"frontier/internal/memory", "frontier/internal/waiters", "frontier/pace", "frontier/weburl"},
	"frontier/dedup":            {"frontier/weburl"},
	"frontier/internal/jobs":    {},
	"frontier/internal/limit":   {},
	"frontier/internal/memory":  {},
	"frontier/internal/waiters": {},
	"frontier/pace":             {"frontier/weburl"},
	"internal/test/storetest":   {"frontier", "frontier/pace", "frontier/weburl"},
	"state": {"frontier", "state/internal/badgerfiles", "state/internal/keyset",
		"state/internal/overlay", "state/internal/record", "state/internal/txn", "wal", "internal/disk",
		"frontier/weburl"},
	"state/internal/badgerfiles":         {"internal/disk"},
	"state/internal/keyset":              {"frontier/weburl"},
	"state/internal/overlay":             {"frontier", "frontier/weburl", "state/internal/keyset", "state/internal/record"},
	"state/internal/record":              {"frontier", "internal/disk", "frontier/weburl"},
	"state/internal/txn":                 {},
	"wal":                                {},
	"internal/urlqueue":                  {"frontier/weburl", "internal/disk", "wal"},
	"internal/urlfrontier":               {"internal/urlfrontier/urlfrontierpb", "internal/urlqueue"},
	"internal/urlfrontier/urlfrontierpb": {},
	"internal/test/urlload":              {"internal/urlfrontier/urlfrontierpb"},
	"parser":                             {"parser/internal/htmltree", "frontier/weburl"},
	"bench":                              {"*"},
	"bench/record":                       {"bench"},
	"internal/test/browsertest":          {},
	"internal/cluster":                   {"frontier", "frontier/weburl", "state"},
	"internal/test/enginetest":           {"frontier", "internal/cluster"},
	"internal/test/memory":               {"frontier", "internal/cluster"},
	"internal/results/overview": {"internal/cluster", "internal/datadir", "internal/crawl/monitor",
		"internal/page"},
	"internal/test/netproxy":    {},
	"internal/test/pgtest":      {"internal/test/netproxy"},
	"internal/test/redistest":   {"internal/test/netproxy"},
	"internal/cluster/postgres": {"frontier", "internal/cluster"},
	"internal/cluster/redis":    {"frontier", "internal/cluster"},
	"internal/cluster/replay":   {"frontier", "internal/cluster", "state"},
	"internal/cluster/session":  {"frontier", "internal/cluster", "state"},
	"internal/config":           {"parser", "internal/web/fetch", "internal/web/sitemap", "frontier/weburl"},
	"internal/crawl": {"frontier", "frontier/pace", "state", "wal", "parser", "internal/cluster/session",
		"internal/config", "internal/datadir", "internal/crawl/gate",
		"internal/crawl/monitor", "internal/crawl/robotscache", "internal/crawl/scope",
		"internal/crawl/seeding", "internal/web/fetch", "internal/web/robots", "internal/web/warc", "frontier/weburl",
		"internal/metrics", "internal/page", "internal/crawl/recrawl", "internal/slot", "internal/crawl/traps",
		"internal/words"},
	"internal/datadir": {"internal/config", "internal/disk", "internal/page", "internal/web/sitemap",
		"frontier/weburl", "state"},
	"internal/crawl/gate": {},
	"internal/crawl/monitor": {"frontier", "internal/config", "internal/datadir", "internal/crawl/scope",
		"internal/disk", "internal/metrics", "internal/page", "internal/words", "state",
		"internal/cluster/session"},
	"internal/results/report": {"frontier", "internal/config",
		"internal/datadir", "internal/crawl/scope", "internal/results/export", "internal/extsort", "internal/page",
		"internal/results/pageindex", "internal/results/parquet", "internal/results/problems",
		"internal/crawl/monitor", "internal/crawl/recrawl", "frontier/weburl", "internal/words", "state"},
	"internal/crawl/robotscache": {"frontier", "internal/config", "internal/web/fetch", "internal/page", "internal/web/robots",
		"frontier/weburl", "internal/words", "state"},
	"internal/crawl/scope": {"frontier", "internal/config", "internal/crawl/traps", "internal/page", "frontier/weburl", "state"},
	"internal/crawl/seeding": {"frontier", "internal/config", "internal/datadir", "internal/crawl/gate",
		"internal/crawl/robotscache", "internal/crawl/scope", "internal/web/fetch", "internal/page",
		"internal/web/sitemap", "frontier/weburl", "state", "frontier/pace"},
	"internal/disk":     {"wal"},
	"internal/test/e2e": {"internal/test/testweb", "internal/web/sitemap"},
	"internal/results": {"internal/cluster/session", "internal/config", "internal/crawl/monitor",
		"internal/crawl/scope", "internal/datadir", "internal/page", "internal/results/export",
		"internal/results/report", "internal/results/ui", "state"},
	"internal/results/parquet": {},
	"internal/results/export": {"internal/datadir", "internal/disk", "internal/page", "internal/results/parquet", "internal/crawl/recrawl",
		"internal/web/sitemap", "frontier/weburl"},
	"internal/extsort":          {},
	"internal/web/fetch":        {"internal/web/http1", "frontier/weburl"},
	"internal/test/htmltest":    {},
	"internal/test/warctest":    {},
	"internal/test/documents":   {},
	"parser/internal/htmltree":  {},
	"internal/web/http1":        {},
	"internal/test/layout":      {},
	"internal/test/long":        {},
	"internal/metrics":          {},
	"internal/page":             {"frontier/weburl", "internal/disk", "internal/words", "parser"},
	"internal/results/problems": {"internal/extsort", "internal/page", "frontier/weburl", "internal/words"},
	"internal/results/pageindex": {"internal/datadir", "internal/disk",
		"internal/page", "internal/results/problems"},
	"internal/crawl/recrawl": {"frontier", "internal/page", "frontier/weburl", "internal/crawl/scope",
		"internal/extsort", "state"},
	"internal/web/robots": {},
	"internal/web/warc":   {"internal/disk", "internal/web/fetch"},
	"internal/service/serve": {"internal/config", "internal/crawl/monitor", "internal/crawl/recrawl",
		"internal/datadir", "internal/metrics", "internal/page", "internal/results/pageindex",
		"internal/results/problems", "internal/results/report", "internal/results/ui", "internal/service",
		"internal/service/hooks", "internal/service/hosts", "internal/service/schedules", "internal/web/warc", "frontier/weburl",
		"internal/words"},
	"internal/test/apitest":   {"internal/service/serve"},
	"internal/service/client": {"internal/service"},
	"internal/service/hooks": {"internal/web/fetch", "internal/page", "internal/service",
		"frontier/weburl"},
	"internal/service/hosts": {"frontier/pace", "internal/config", "internal/crawl", "internal/page",
		"internal/service"},
	"internal/service/schedules": {"internal/config", "internal/page", "internal/service"},
	"internal/web/sitemap":       {},
	"internal/test/sitemaptest":  {},
	"internal/service": {"internal/config", "internal/crawl", "internal/datadir",
		"internal/crawl/monitor", "internal/results/report", "internal/disk", "internal/page", "internal/results/problems", "internal/service/db", "internal/slot", "internal/web/fetch",
		"frontier/weburl", "state", "internal/results", "internal/results/pageindex"},
	"internal/service/db":               {"internal/disk"},
	"internal/slot":                     {},
	"internal/test/testweb":             {},
	"internal/test/testweb/cmd/testweb": {"internal/test/testweb"},
	"internal/test/testweb/problemsite": {"parser"},
	"internal/crawl/traps":              {"frontier", "frontier/dedup", "frontier/weburl"},
	"internal/results/ui":               {"internal/datadir", "internal/results/report", "internal/page", "internal/results/problems", "internal/words"},
	"frontier/weburl":                   {},
	"internal/view":                     {"internal/crawl/monitor", "internal/words"},
	"internal/words":                    {},
	"scripts/release":                   {},
}

// groups are groups of packages, by the folder that holds them. A group imports only itself and groups before it.
var groups = [][]string{
	{"frontier/weburl"}, {"frontier"}, {"state"}, {"internal/cluster", "internal/page", "internal/datadir"},
	{"internal/crawl"}, {"internal/results"}, {"internal/service"}, {"cmd"},
}

// groupOf is the number of the group of a package, by the longest folder that holds it; -1 if it has none.
func groupOf(dir string) (group int) {
	group, longest := -1, 0
	for i, folders := range groups {
		for _, folder := range folders {
			if (dir == folder || strings.HasPrefix(dir, folder+"/")) && len(folder) > longest {
				group, longest = i, len(folder)
			}
		}
	}
	return group
}

// Groups of packages import each other in one direction.
func TestGroupsHaveOneDirection(t *testing.T) {
	for dir, pkg := range packages(t) {
		for _, imp := range pkg.Imports {
			rel, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			if from, to := groupOf(dir), groupOf(rel); from >= 0 && to > from {
				t.Errorf("%s imports %s, which is above it", dir, rel)
			}
		}
	}
}

func TestImportDirections(t *testing.T) {
	for dir, pkg := range packages(t) {
		if len(pkg.GoFiles) == 0 {
			continue // tests may import everything
		}
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
		for _, rel := range allowed {
			if rel != "*" && !slices.Contains(pkg.Imports, module+"/"+rel) {
				t.Errorf("allowedImports lets %s import %s, which it does not", dir, rel)
			}
		}
	}
}

// No package of the product imports test support, benchmarks or examples.
func TestProductWithoutTestSupport(t *testing.T) {
	isSupport := regexp.MustCompile(`^(internal/test|bench|examples)(/|$)`).MatchString
	for dir, pkg := range packages(t) {
		for _, imp := range pkg.Imports {
			if rel, ours := strings.CutPrefix(imp, module+"/"); ours && isSupport(rel) && !isSupport(dir) {
				t.Errorf("%s imports %s", dir, rel)
			}
		}
	}
}

// The table of packages in ARCHITECTURE.md has one row for each package.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Packages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string]bool{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.HasPrefix(cells[1], " `") {
			rows[strings.Trim(cells[1], " `")] = true
		}
	}
	for dir := range allowedImports {
		if !rows[dir] {
			t.Errorf("ARCHITECTURE.md has no row for %s", dir)
		}
		delete(rows, dir)
	}
	for dir := range rows {
		t.Errorf("ARCHITECTURE.md has a row for %s, which allowedImports does not name", dir)
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	for dir, pkg := range packages(t) {
		if len(pkg.GoFiles) == 0 {
			continue
		}
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

// packages finds every package of the module by directory relative to the root. Some have tests only.
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
		if len(pkg.GoFiles)+len(pkg.TestGoFiles) > 0 {
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

// A test that sleeps does so in a bubble of testing/synctest, where that is exact. Outside of one it waits for a fact.
func TestTestsDoNotSleep(t *testing.T) {
	inBubble := regexp.MustCompile(`synctest\.|[bB]ubble`)
	for dir := range packages(t) {
		names, err := filepath.Glob(filepath.Join(root(t), dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		bubbles, sleeps := false, ""
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			bubbles = bubbles || strings.Contains(string(text), `"testing/synctest"`)
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				body := string(text[fn.Pos()-file.FileStart : fn.End()-file.FileStart])
				if !strings.Contains(body, "time.Sleep"+"(") {
					continue
				}
				sleeps = name
				if strings.HasPrefix(fn.Name.Name, "Test") && !inBubble.MatchString(body) {
					t.Errorf("%s: %s sleeps outside of a bubble", name, fn.Name.Name)
				}
			}
		}
		if sleeps != "" && !bubbles {
			t.Errorf("%s sleeps, and no test of the package makes a bubble", sleeps)
		}
	}
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
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
