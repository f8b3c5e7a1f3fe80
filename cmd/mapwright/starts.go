package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/mapwright/mapwright/internal/datadir"
)

// readStarts turns the --start-url arguments into start URLs: a URL, a bare domain, a file with one per line, or - for
// standard input. The error names every argument that cannot be read.
func readStarts(args []string, stdin io.Reader) ([]datadir.Start, error) {
	var (
		starts []datadir.Start
		errs   []error
		seen   = map[string]bool{}
	)
	add := func(text, from string) {
		s, err := datadir.ParseStart(text)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s%w", from, err))
		case !seen[s.URL.String()]:
			seen[s.URL.String()] = true
			starts = append(starts, s)
		}
	}
	for _, arg := range args {
		switch {
		case arg == "-":
			errs = append(errs, eachLine(stdin, "standard input", add))
		case isFile(arg) || meansFile(arg):
			file, err := os.Open(arg)
			if err != nil {
				errs = append(errs, fmt.Errorf("read start URLs: %w", err))
				continue
			}
			errs = append(errs, eachLine(file, arg, add), file.Close())
		default:
			add(arg, "")
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usage("%w", err)
	}
	if len(starts) == 0 {
		return nil, usage("no start URL: give --start-url a URL, a domain, a file of them, or - for standard input")
	}
	return starts, nil
}

// isFile reports whether an argument is the name of an existing file.
func isFile(arg string) bool {
	if strings.Contains(arg, "://") {
		return false
	}
	info, err := os.Stat(arg)
	return err == nil && !info.IsDir()
}

// meansFile reports whether an argument can only be the name of a file, whether or not it exists: without this check, a
// mistyped name would become a crawl of https://urls.txt/. An argument with a host name before its first slash, such as
// localhost:8080/a.html, is a URL.
func meansFile(arg string) bool {
	if strings.Contains(arg, "://") {
		return false
	}
	if filepath.IsAbs(arg) || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, "./") ||
		strings.HasPrefix(arg, "../") {
		return true
	}
	if host, _, path := strings.Cut(arg, "/"); path && (strings.ContainsAny(host, ".:") || host == "localhost") {
		return false
	}
	switch filepath.Ext(arg) {
	case ".txt", ".csv", ".lst", ".list", ".html", ".htm":
		return true
	}
	return false
}

// eachLine calls add for each line of a list of URLs. Comments and empty lines are skipped. A list that starts with a
// byte order mark, as editors on Windows write it, is read in the encoding that the mark names.
func eachLine(r io.Reader, name string, add func(text, from string)) error {
	lines := bufio.NewScanner(transform.NewReader(r, unicode.BOMOverride(transform.Nop)))
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), " #")
		text = strings.TrimSpace(text)
		if text != "" && !strings.HasPrefix(text, "#") {
			add(text, fmt.Sprintf("%s line %d: ", name, n))
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}
