package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// readStarts turns the --start-url arguments into start URLs: a URL, a bare domain, a file with one per line, or - for standard
// input. All that cannot be read are named at once.
func readStarts(args []string, stdin io.Reader) ([]crawl.Start, error) {
	var (
		starts []crawl.Start
		errs   []error
		seen   = map[string]bool{}
	)
	add := func(text, from string) {
		s, err := parseStart(text)
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

// isFile says whether an argument is rather the name of a file than a URL or a domain.
func isFile(arg string) bool {
	if strings.Contains(arg, "://") {
		return false
	}
	info, err := os.Stat(arg)
	return err == nil && !info.IsDir()
}

// meansFile knows arguments that can only be meant as the name of a file, whether or not it is there: without it, a mistyped name would
// become a crawl of https://urls.txt/.
func meansFile(arg string) bool {
	if strings.Contains(arg, "://") {
		return false
	}
	switch filepath.Ext(arg) {
	case ".txt", ".csv", ".lst", ".list", ".html", ".htm":
		return true
	}
	return strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../")
}

func eachLine(r io.Reader, name string, add func(text, from string)) error {
	lines := bufio.NewScanner(r)
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

var errNotDomain = errors.New("neither a URL nor a domain")

// parseStart reads a URL or a bare domain. A bare domain is tried with https first, and with http if that is refused.
func parseStart(text string) (crawl.Start, error) {
	bare := !strings.Contains(text, "://")
	full := text
	if bare {
		full = "https://" + text
	}
	u, err := urlnorm.Parse(full)
	if bare && err == nil && strings.Contains(text, "@") {
		err = errNotDomain // such as mailto:, which would otherwise pass for a user's name
	}
	if err != nil {
		return crawl.Start{}, fmt.Errorf("start URL %q: %w", text, err)
	}
	return crawl.Start{URL: u, Bare: bare}, nil
}
