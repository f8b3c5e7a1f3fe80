package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// A module is one whose packages are in the program, with the texts of its licences.
type module struct {
	path, version string
	texts         []file // named by their paths in the module
	licences      []string
}

// allowed are the licences that a module may have. Those of the Mozilla Public License are used unchanged.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense"}

// phrases tell licences apart, by words that stand in no other. White space is one space.
var phrases = []struct{ licence, phrase string }{
	{"Apache-2.0", "Apache License Version 2.0, January 2004"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from this software without specific"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License, version 2.0"},
	{"Unlicense", "This is free and unencumbered software released into the public domain"},
}

// identify returns the licences whose words a text has.
func identify(text []byte) []string {
	plain := strings.Join(strings.Fields(string(text)), " ")
	found := map[string]bool{}
	for _, p := range phrases {
		if strings.Contains(plain, p.phrase) {
			found[p.licence] = true
		}
	}
	if strings.Contains(plain, "Redistribution and use in source and binary forms") && !found["BSD-3-Clause"] {
		found["BSD-2-Clause"] = true
	}
	return slices.Sorted(maps.Keys(found))
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-._].*)?$`)

// modulesOf returns the modules of the program for a target, the standard library too, ordered by their paths. The
// texts are in the folders of the packages that are used, and in those above them.
func modulesOf(t target) ([]module, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Module,Standard", mainPackage)
	cmd.Env = t.environment()
	listed, err := output(cmd)
	if err != nil {
		return nil, err
	}
	root, err := output(exec.Command("go", "env", "GOROOT"))
	if err != nil {
		return nil, err
	}
	standard := &module{path: "std", version: strings.TrimPrefix(runtime.Version(), "go")}
	if err := standard.read(strings.TrimSpace(string(root)), strings.TrimSpace(string(root))); err != nil {
		return nil, err
	}
	all := map[string]*module{"std": standard}
	for d := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p struct {
			Dir      string
			Standard bool
			Module   *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("packages of the program: %w", err)
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		m := all[p.Module.Path]
		if m == nil {
			m = &module{path: p.Module.Path, version: p.Module.Version}
			all[m.path] = m
		}
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			if err := m.read(p.Module.Dir, dir); err != nil {
				return nil, err
			}
			if len(dir) <= len(p.Module.Dir) {
				break
			}
		}
	}
	var modules []module
	for _, path := range slices.Sorted(maps.Keys(all)) {
		m := all[path]
		found := map[string]bool{}
		for _, text := range m.texts {
			for _, licence := range identify(text.data) {
				found[licence] = true
			}
		}
		m.licences = slices.Sorted(maps.Keys(found))
		slices.SortFunc(m.texts, func(a, b file) int { return strings.Compare(a.name, b.name) })
		modules = append(modules, *m)
	}
	return modules, nil
}

// read adds the texts in a folder of the module.
func (m *module) read(root, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		name, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(m.texts, func(f file) bool { return f.name == name }) {
			continue
		}
		if m.texts, err = appendFile(m.texts, filepath.Join(dir, e.Name()), name); err != nil {
			return err
		}
	}
	return nil
}

// printLicences lists the modules of all targets. Its error names those without a licence that is known and allowed.
func printLicences(chosen []target) error {
	seen := map[string]bool{}
	var faults []error
	for _, t := range chosen {
		modules, err := modulesOf(t)
		if err != nil {
			return err
		}
		for _, m := range modules {
			if seen[m.path] {
				continue
			}
			seen[m.path] = true
			fmt.Printf("%-24s %s %s\n", strings.Join(m.licences, ", "), m.path, m.version)
			faults = append(faults, m.check())
		}
	}
	return errors.Join(faults...)
}

func (m *module) check() error {
	if len(m.licences) == 0 {
		return fmt.Errorf("%s has no licence that is known", m.path)
	}
	for _, licence := range m.licences {
		if !slices.Contains(allowed, licence) {
			return fmt.Errorf("%s has the licence %s, which is not allowed", m.path, licence)
		}
	}
	return nil
}

// notices are the texts of all licences, as they must go with the program. Equal texts are there once.
func notices(modules []module) []byte {
	var b bytes.Buffer
	b.WriteString("Mapwright is under the Apache License 2.0, in the file LICENSE. It contains the modules below, and\n" +
		"the rules of the Public Suffix List (https://publicsuffix.org/) under the Mozilla Public License 2.0.\n")
	names := map[[32]byte][]string{}
	var order [][32]byte
	texts := map[[32]byte][]byte{}
	for _, m := range modules {
		for _, text := range m.texts {
			key := sha256.Sum256(bytes.TrimSpace(text.data))
			if names[key] == nil {
				order = append(order, key)
				texts[key] = bytes.TrimSpace(text.data)
			}
			names[key] = append(names[key], fmt.Sprintf("%s %s (%s)", m.path, m.version, text.name))
		}
	}
	for _, key := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(names[key], "\n"), texts[key])
	}
	return b.Bytes()
}
