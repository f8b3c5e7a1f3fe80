package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/test/documents"
)

// everyDocument are the pages of the documentation.
func everyDocument(t *testing.T) map[string]*documents.Document {
	t.Helper()
	all, err := documents.Read(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wholeProgram is the root of all commands, completion among them.
func wholeProgram() *cobra.Command {
	root := newRoot(nil, stdio{&bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}})
	root.InitDefaultCompletionCmd()
	return root
}

// checkCommandLine wants a command of the program, and flags that this command has.
func checkCommandLine(root *cobra.Command, line []string) error {
	cmd, rest, err := root.Find(line)
	if err != nil || cmd == root ||
		cmd.HasSubCommands() && len(rest) > 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(rest[0]) {
		return fmt.Errorf("%q is no command", line)
	}
	for _, word := range rest {
		word, _, _ = strings.Cut(strings.Trim(word, `'"[]().,;:…`), "=")
		name, isLong := strings.CutPrefix(word, "--")
		switch isShort := !isLong && len(word) == 2 && word[0] == '-'; {
		case isLong && name != "" && name != "help" && cmd.Flag(name) == nil,
			isShort && word[1:] != "h" && cmd.Flags().ShorthandLookup(word[1:]) == nil:
			return fmt.Errorf("mapwright %s has no flag %s", cmd.Name(), word)
		}
	}
	return nil
}

// Every command line of the program that a document shows, in a block or within a sentence, and every one in a comment
// of a file in deploy, has a command of the program and flags that this command has.
func TestDocumentedCommandLinesExist(t *testing.T) {
	root := wholeProgram()
	var commands []string
	for _, cmd := range root.Commands() {
		commands = append(commands, cmd.Name())
	}
	inText := regexp.MustCompile(`(?:^|[\s(/])mapwright ([a-z][^|;&>)\n#"]*)`)
	lines := 0
	check := func(where, line string) {
		lines++
		if err := checkCommandLine(root, strings.Fields(line)); err != nil {
			t.Errorf("%s: %q: %v", where, line, err)
		}
	}
	for name, d := range everyDocument(t) {
		for _, span := range d.Spans {
			first, rest, _ := strings.Cut(span, " ")
			switch {
			case first == "mapwright" && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ …") != "" && rest[0] >= 'a':
				check(name, rest)
			case slices.Contains(commands, first) && strings.HasPrefix(rest, "-"):
				check(name, span)
			}
		}
		for _, b := range d.Blocks {
			text := strings.ReplaceAll(strings.Join(b.Lines, "\n"), "\\\n", " ")
			for _, found := range inText.FindAllStringSubmatch(text, -1) {
				check(name, found[1])
			}
		}
	}
	for path, text := range deployed(t) {
		for _, found := range regexp.MustCompile(`/usr/bin/mapwright ([a-z][^"\n;#]*)`).FindAllStringSubmatch(text, -1) {
			check(path, found[1])
		}
	}
	if lines < 150 {
		t.Errorf("only %d command lines: the search is broken", lines)
	}
}

// deployed are the texts of the files in deploy, by path.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "deploy", "*", "*"))
	if err != nil || len(paths) < 8 {
		t.Fatalf("%q, %v", paths, err)
	}
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

// Every variable MAPWRIGHT_… that a document or a file in deploy names is read by the program.
func TestDocumentedVariablesExist(t *testing.T) {
	known := map[string]bool{serverVariable: true, keyVariable: true}
	root := wholeProgram()
	for _, server := range []string{"serve", "frontier"} {
		cmd, _, err := root.Find([]string{server})
		if err != nil {
			t.Fatal(err)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known[config.EnvName(f.Name)] = true })
	}
	texts := deployed(t)
	for name, d := range everyDocument(t) {
		texts[name] = d.Text
	}
	named := 0
	for where, text := range texts {
		for _, name := range regexp.MustCompile(`\bMAPWRIGHT_[A-Z][A-Z_]*[A-Z]\b`).FindAllString(text, -1) {
			named++
			if !known[name] && len(config.UnknownEnv([]string{name + "=x"})) > 0 {
				t.Errorf("%s names the variable %s, which the program does not read", where, name)
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d variables: the search is broken", named)
	}
}

// Names that documents have and the program has not.
var (
	// ofOthers belong to PostgreSQL and its driver, and to sites.
	ofOthers = []string{"default_query_exec_mode", "pg_dump", "pool_max_conns", "statement_timeout", "utm_source"}
	// examples are files of users and sites, and names that follow a rule: tests of that rule compare them.
	examples = regexp.MustCompile(`^(?:users\.txt|fields\.txt|page\.html)$|` +
		`^(?:sitemap|shop)[-.](?:\S+\.)?xml(?:\.gz)?$|^mapwright-\d+-\d+-HOST\.warc\.gz$|^mapwright_VERSION_`)
)

// Every name with an underscore that a document sets as code, such as a field of an output, a setting of a file, a
// metric or a reason, is in a text of the program. Every name of a file is, too, unless the checkout has it, or the
// document's own commands or a file in deploy name it.
func TestDocumentedNamesExist(t *testing.T) {
	program := programTexts(t)
	for _, text := range deployed(t) {
		program += text + "\n"
	}
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`[A-Za-z0-9_]+`).FindAllString(program, -1) {
		words[word] = true
	}
	name := regexp.MustCompile(`(?:^|[^A-Za-z0-9_./-])([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?:[^A-Za-z0-9_./*…-]|$)`)
	file := regexp.MustCompile(
		`[A-Za-z0-9_~.-]+\.(?:jsonl|json|xml|csv|html|parquet|index|log|db|sock|gz|tmp|open|txt|yaml|yml|env|warc)\b`)
	names, files := 0, 0
	for where, d := range everyDocument(t) {
		commands := ""
		for _, b := range d.Blocks {
			commands += strings.Join(b.Lines, "\n") + "\n"
		}
		if where == "ARCHITECTURE.md" || where == "CONTRIBUTING.md" {
			continue // which name code, and whose paths another test compares
		}
		for _, span := range d.Spans {
			for _, found := range file.FindAllString(span, -1) {
				files++
				if !strings.Contains(program, found) && !strings.Contains(commands, found) &&
					!examples.MatchString(found) && !inCheckout(span) && !inCheckout("docs/"+span) {
					t.Errorf("%s names the file %s in %q, which the program does not have", where, found, span)
				}
			}
			for _, found := range name.FindAllStringSubmatch(span, -1) {
				names++
				word := found[1]
				isSetting := len(config.UnknownEnv([]string{config.EnvName(word) + "=x"})) == 0
				if !words[word] && !isSetting && !slices.Contains(ofOthers, word) {
					t.Errorf("%s names %s in %q, which the program does not have", where, word, span)
				}
			}
		}
	}
	if names < 300 || files < 100 {
		t.Errorf("only %d names and %d files: the search is broken", names, files)
	}
}

func inCheckout(path string) bool {
	_, err := os.Stat(filepath.Join("..", "..", path))
	return err == nil
}

// Every path of an HTTP request that a document names is answered: below /v1 by the operation of the OpenAPI document,
// elsewhere by a path in a text of the program.
func TestDocumentedRequestsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "service", "serve", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	operations := map[*regexp.Regexp]map[string]any{}
	for path, methods := range api.Paths {
		pattern := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		operations[regexp.MustCompile(`^`+pattern+`$`)] = methods
	}
	exists := func(method, path string) bool {
		for pattern, methods := range operations {
			if _, has := methods[strings.ToLower(method)]; pattern.MatchString(path) && (has || method == "") {
				return true
			}
		}
		return false
	}
	program := programTexts(t)
	request := regexp.MustCompile(`^(?:(GET|POST|PUT|PATCH|DELETE) )?(/(?:v1/|healthz|readyz|metrics|status|openapi)[^\s?]*)`)
	requests := 0
	for where, d := range everyDocument(t) {
		for _, span := range d.Spans {
			found := request.FindStringSubmatch(span)
			if found == nil || strings.HasSuffix(span, "/…") {
				continue
			}
			requests++
			inProgram := !strings.HasPrefix(found[2], "/v1/") && strings.Contains(program, found[2])
			if !exists(found[1], found[2]) && !inProgram {
				t.Errorf("%s names the request %q, which no server answers", where, span)
			}
		}
	}
	if requests < 15 {
		t.Errorf("only %d requests: the search is broken", requests)
	}
}
