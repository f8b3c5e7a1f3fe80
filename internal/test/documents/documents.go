// Package documents reads the commands out of README.md and docs/*.md, so that tests can run them.
//
// Commands stand in fenced blocks. The first word after the fence says what a block is: "sh" is a script, "console" is
// the picture of a terminal, in which lines that begin with "$ " are commands. A second word after "sh" names what the
// script needs: server is what is started beside the others, service a running server, cluster a database, frontier is
// the server of docs/urlfrontier.md and urlfrontier the client of it.
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

// Document is a page of the documentation.
type Document struct {
	Name   string // such as service.md
	Text   string
	Blocks []Block
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

var fenced = regexp.MustCompile("(?ms)^```([a-z]*(?: [a-z]+)?)\n(.*?)^```$")

// Read reads README.md and all pages of docs, in the checkout whose root is given.
func Read(root string) (map[string]*Document, error) {
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	all := map[string]*Document{}
	for _, path := range append(paths, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a document: %w", err)
		}
		d := &Document{Name: filepath.Base(path), Text: string(text)}
		for _, found := range fenced.FindAllStringSubmatch(string(text), -1) {
			d.Blocks = append(d.Blocks, Block{Kind: found[1],
				Lines: strings.Split(strings.TrimSuffix(found[2], "\n"), "\n")})
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
