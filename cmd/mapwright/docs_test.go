package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Every flag that a document names exists. A default that a document gives for a flag is that of the program: in
// parentheses behind the flag, or in the table of docs/traps.md.
func TestDocumentsNameFlagsThatExist(t *testing.T) {
	flags := map[string]*pflag.Flag{"help": {}}
	var collect func(cmd *cobra.Command)
	collect = func(cmd *cobra.Command) {
		add := func(f *pflag.Flag) { flags[f.Name] = f }
		cmd.Flags().VisitAll(add)
		cmd.PersistentFlags().VisitAll(add)
		for _, sub := range cmd.Commands() {
			collect(sub)
		}
	}
	collect(wholeProgram())
	documents, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	named, defaults := 0, 0
	for _, path := range append(documents, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`--([a-z][a-z0-9-]+)`).FindAllSubmatch(text, -1) {
			named++
			if flags[string(found[1])] == nil {
				t.Errorf("%s names %s, which is no flag", filepath.Base(path), found[0])
			}
		}
		for _, found := range regexp.MustCompile("`--([a-z-]+)` \\(([0-9][0-9.,]*)[;)]").FindAllSubmatch(text, -1) {
			defaults++
			want := string(bytes.ReplaceAll(found[2], []byte(","), nil))
			if f := flags[string(found[1])]; f != nil && f.DefValue != want {
				t.Errorf("%s says that --%s is %s, the program %s", filepath.Base(path), found[1], want, f.DefValue)
			}
		}
	}
	if named < 100 || defaults < 3 {
		t.Errorf("the documents name only %d flags and %d defaults: the search is broken", named, defaults)
	}
}

// Every command line in deploy has a command of the program and flags that this command has.
func TestDeployedCommandsExist(t *testing.T) {
	root := wholeProgram()
	lines := 0
	check := func(path string, line []string) {
		if len(line) == 0 {
			return
		}
		lines++
		if err := checkCommandLine(root, line); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, pattern := range []string{"compose/*.yaml", "kubernetes/*.yaml", "systemd/*.service"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", "deploy", pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range regexp.MustCompile(`(?m)^ExecStart=/usr/bin/mapwright (.*)$`).FindAllSubmatch(text, -1) {
				check(path, strings.Fields(string(found[1])))
			}
			if filepath.Ext(path) != ".yaml" {
				continue
			}
			for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
				var document any
				if err := d.Decode(&document); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				for _, line := range commandLines(document) {
					check(path, line)
				}
			}
		}
	}
	if lines < 8 {
		t.Errorf("only %d command lines: the search is broken", lines)
	}
}

// commandLines returns the arguments of the program wherever they stand in a YAML document: in args and command, and
// behind its path in test.
func commandLines(node any) (lines [][]string) {
	switch node := node.(type) {
	case []any:
		for _, v := range node {
			lines = append(lines, commandLines(v)...)
		}
	case map[string]any:
		for key, v := range node {
			lines = append(lines, commandLines(v)...)
			list, isList := v.([]any)
			if !isList || key != "args" && key != "command" && key != "test" {
				continue
			}
			var line []string
			for _, word := range list {
				line = append(line, fmt.Sprint(word))
			}
			if key == "test" {
				if len(line) < 2 || line[1] != "/usr/bin/mapwright" {
					continue
				}
				line = line[2:]
			}
			lines = append(lines, line)
		}
	}
	return lines
}
