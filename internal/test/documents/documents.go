// Package documents reads the commands and names out of the pages of the documentation, so that tests can run and
// compare them.
//
// Commands stand in fenced blocks. The first word after the fence says what a block is: "sh" is a script, "console" is
// the picture of a terminal, in which lines that begin with "$ " are commands. A second word after "sh" names what the
// script needs: server is what is started beside the others, service a running server, cluster a database, redis one of
// Redis, postgres the administrator of PostgreSQL, python Python, frontier is the server of docs/urlfrontier.md and
// urlfrontier the client of it. A block "sql" is for psql.
package documents

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Block is one fenced block.
type Block struct {
	Kind  string // the words after the fence; empty if there are none
	Lines []string
}

// Commands are the commands of a block of the kind "sh" or "console", one line each or several.
func (b *Block) Commands() string {
	var script strings.Builder
	for _, line := range b.Lines {
		command, prompted := strings.CutPrefix(line, "$ ")
		if b.Kind != "console" || prompted {
			script.WriteString(command + "\n")
		}
	}
	return script.String()
}

// Output are the lines that the commands of a block of the kind "console" print. "..." stands for any number of others.
func (b *Block) Output() []string {
	var lines []string
	for _, line := range b.Lines {
		if b.Kind == "console" && line != "" && line != "..." && !strings.HasPrefix(line, "$ ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Document is a page of the documentation.
type Document struct {
	Name   string // such as service.md
	Text   string
	Blocks []Block
	Spans  []string // what stands between single backquotes outside of blocks
}

// Script is a bash script of all blocks of some kinds, which ends with the first command that fails.
func (d *Document) Script(kinds ...string) string {
	script := ""
	for _, b := range d.Blocks {
		for _, kind := range kinds {
			if b.Kind == kind {
				script += b.Commands()
			}
		}
	}
	if script == "" {
		return ""
	}
	return "set -euo pipefail\n" + script
}

// fenced is a block; one within an item of a list is indented.
var fenced = regexp.MustCompile("(?ms)^( *)```([a-z]*(?: [a-z]+)?)\n(.*?)^ *```$")

// inCode is a span.
var inCode = regexp.MustCompile("`([^`\n]+)`")

// Read reads all pages of docs and those at the root of a checkout. CHANGELOG.md is none of them: it names what was.
func Read(root string) (map[string]*Document, error) {
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	all := map[string]*Document{}
	for _, path := range paths {
		if filepath.Base(path) == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a document: %w", err)
		}
		d := &Document{Name: filepath.Base(path), Text: string(text)}
		for _, found := range fenced.FindAllStringSubmatch(string(text), -1) {
			b := Block{Kind: found[2]}
			for line := range strings.Lines(found[3]) {
				b.Lines = append(b.Lines, strings.TrimPrefix(strings.TrimSuffix(line, "\n"), found[1]))
			}
			d.Blocks = append(d.Blocks, b)
		}
		for _, found := range inCode.FindAllStringSubmatch(fenced.ReplaceAllString(d.Text, ""), -1) {
			d.Spans = append(d.Spans, found[1])
		}
		all[d.Name] = d
	}
	return all, nil
}

// Metrics returns the names of all metrics that the dashboard and the rules in a directory such as deploy use, each
// once. The parts of a histogram have its name.
func Metrics(dir string) ([]string, error) {
	dashboards, err := filepath.Glob(filepath.Join(dir, "grafana", "*.json"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range append(dashboards, filepath.Join(dir, "prometheus", "alerts.yml")) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read what uses metrics: %w", err)
		}
		if filepath.Ext(path) == ".json" && !json.Valid(text) {
			return nil, fmt.Errorf("%s is not JSON", path)
		}
		for _, name := range metric.FindAllString(string(text), -1) {
			names = append(names, partOfHistogram.ReplaceAllString(name, ""))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

var (
	metric          = regexp.MustCompile(`\b(mapwright|process|go)_[a-z0-9_]+`)
	partOfHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)
)
