package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A type with more methods or fields than this has several jobs, and a package with more files several subjects.
const (
	mostMethods = 25
	mostFields  = 20
	mostFiles   = 26
)

// long are the structs that may have more fields, and why.
var long = map[string]string{
	"frontier.Options": "a list of settings, each with its default",
	"frontier.Stats":   "a list of figures, for the status display and the metrics",
	"monitor.Live":     "a list of figures, for the status display",
	"report.Report":    "report.json, field by field",
}

// sized are the packages whose types and files are counted, with all packages below them.
var sized = []string{"frontier", "state", "internal/cluster", "internal/crawl", "internal/service"}

func TestSizes(t *testing.T) {
	types, found := 0, map[string]bool{}
	for dir, pkg := range packages(t) {
		if !slices.ContainsFunc(sized, func(top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }) {
			continue
		}
		if n := len(pkg.GoFiles); n > mostFiles {
			t.Errorf("%s has %d files, at most %d are allowed", dir, n, mostFiles)
		}
		methods, fields := map[string]int{}, map[string]int{}
		for _, name := range pkg.GoFiles {
			countMembers(t, filepath.Join(root(t), dir, name), methods, fields)
		}
		for name, n := range methods {
			if n > mostMethods {
				t.Errorf("%s: type %s has %d methods, at most %d are allowed", dir, name, n, mostMethods)
			}
		}
		for name, n := range fields {
			if full := pkg.Name + "." + name; long[full] != "" {
				if found[full] = true; n <= mostFields {
					t.Errorf("%s: type %s has only %d fields: it needs no exception", dir, name, n)
				}
			} else if n > mostFields {
				t.Errorf("%s: type %s has %d fields, at most %d are allowed", dir, name, n, mostFields)
			}
		}
		types += len(fields)
	}
	for name := range long {
		if !found[name] {
			t.Errorf("there is no type %s: it needs no exception", name)
		}
	}
	if types < 50 {
		t.Errorf("found only %d structs: the count is broken", types)
	}
}

// countMembers adds the methods and the fields of the types in a file to what was counted before.
func countMembers(t *testing.T, path string, methods, fields map[string]int) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				methods[receiver(d.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok {
					if st, ok := ts.Type.(*ast.StructType); ok {
						fields[ts.Name.Name] = countFields(st)
					}
				}
			}
		}
	}
}

// countFields counts an embedded struct as one field.
func countFields(st *ast.StructType) (n int) {
	for _, f := range st.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

// receiver is the name of a receiver's type, without pointer and type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
