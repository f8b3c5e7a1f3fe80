package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Value is the place of a setting and the form of its text. Set replaces the value. On a list, Set adds items, so that
// one layer can set a list several times.
type Value interface {
	Set(text string) error
	String() string
	// Type names the form for help texts. The type of a value that is on or off is bool.
	Type() string
	// JSON is the value as JSON shows it: a number, a boolean, a list or a text. Durations are seconds and sizes are
	// bytes; a configuration file takes both forms.
	JSON() any
	reset() // to the default
}

// numberValue is a number, a share, a duration or a size in bytes, by its type.
type numberValue[T int | float64 | time.Duration | int64] struct {
	p               *T
	usual, min, max T
}

func number[T int | float64 | time.Duration | int64](p *T, usual, least, most T) Value {
	return numberValue[T]{p, usual, least, most}
}

// ParseNumber reads a whole number as settings have it: 1000, 1_000 or 1,000. One that is too large for an int is the
// largest, and one that is too small is the smallest.
func ParseNumber(text string) (int, error) {
	n, err := strconv.Atoi(strings.ReplaceAll(strings.ReplaceAll(text, "_", ""), ",", ""))
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return n, nil
}

func (v numberValue[T]) Set(text string) error {
	var n T
	var err error
	shown := strconv.Quote(text)
	switch p := any(&n).(type) {
	case *int:
		shown = text
		*p, err = ParseNumber(text)
	case *float64:
		if *p, err = strconv.ParseFloat(text, 64); err != nil {
			err = fmt.Errorf("%q is not a number", text)
		}
		shown = fmt.Sprint(*p)
	case *time.Duration: // seconds ("90", "1.5") or a form with units ("1m30s", "7d")
		*p, err = ParseDuration(text)
	case *int64:
		var size uint64
		if size, err = humanize.ParseBytes(text); err != nil {
			err = fmt.Errorf("%q is not a size such as 10MiB", text)
		}
		*p = int64(min(size, math.MaxInt64))
	}
	if err != nil {
		return err
	}
	if !(n >= v.min && n <= v.max) {
		return fmt.Errorf("%s is not between %s and %s", shown, numberValue[T]{p: &v.min}, numberValue[T]{p: &v.max})
	}
	*v.p = n
	return nil
}

func (v numberValue[T]) String() string {
	switch n := any(*v.p).(type) {
	case float64:
		return strconv.FormatFloat(n, 'g', -1, 64)
	case int64:
		if n%(1<<20) == 0 {
			return fmt.Sprintf("%dMiB", n>>20)
		}
	}
	return fmt.Sprint(*v.p)
}

func (v numberValue[T]) Type() string {
	switch any(*v.p).(type) {
	case time.Duration:
		return "duration"
	case int64:
		return "size"
	}
	return "number"
}

func (v numberValue[T]) JSON() any {
	if d, ok := any(*v.p).(time.Duration); ok {
		return d.Seconds()
	}
	return *v.p
}

func (v numberValue[T]) reset() { *v.p = v.usual }

// rangeOf is the number and its range as numbers: a duration in seconds, a size in bytes.
func (v numberValue[T]) rangeOf() (n float64, r *Range) {
	unit := 1.0
	if _, ok := any(v.min).(time.Duration); ok {
		unit = float64(time.Second)
	}
	end := float64(v.max) / unit
	return float64(*v.p) / unit, &Range{AtLeast: float64(v.min) / unit, AtMost: &end}
}

type boolValue struct {
	p     *bool
	usual bool
}

func (v boolValue) Set(text string) error {
	switch strings.ToLower(text) {
	case "1", "t", "true", "yes", "on":
		*v.p = true
	case "0", "f", "false", "no", "off":
		*v.p = false
	default:
		return fmt.Errorf("%q is neither true nor false", text)
	}
	return nil
}

func (v boolValue) String() string { return strconv.FormatBool(*v.p) }
func (v boolValue) Type() string   { return "bool" }
func (v boolValue) JSON() any      { return *v.p }
func (v boolValue) reset()         { *v.p = v.usual }

// stringValue takes any text that passes its check, if it has one, and the empty text. If it has choices, it takes one
// of them.
type stringValue struct {
	p       *string
	usual   string
	check   func(string) error
	form    string // its Type, if that is not text
	choices []string
}

// Forms of texts. A URL may contain a password, which is not shown. A file may be several, separated by commas; their
// paths are made absolute, because a crawl may be resumed from another directory.
const (
	formFile = "file"
	formURL  = "URL"
	formName = "name"
)

func (v stringValue) Set(text string) error {
	check := v.check
	switch {
	case v.choices != nil:
		check = oneOf(v.choices)
	case text == "":
		check = nil
	}
	if check != nil {
		if err := check(text); err != nil {
			return err
		}
	}
	if v.form == formFile && text != "" {
		paths := strings.Split(text, ",")
		for i := range paths {
			if abs, err := filepath.Abs(paths[i]); err == nil {
				paths[i] = abs
			}
		}
		text = strings.Join(paths, ",")
	}
	*v.p = text
	return nil
}

func (v stringValue) String() string { return *v.p }
func (v stringValue) JSON() any      { return *v.p }
func (v stringValue) reset()         { *v.p = v.usual }

// Type is its form, or text.
func (v stringValue) Type() string { return cmp.Or(v.form, "text") }

// Choices are the texts that may be given; nil means any that passes the check.
func (v stringValue) Choices() []string { return v.choices }

// ParseDuration reads seconds, or a length of time with units: see [ParseAge].
func ParseDuration(text string) (time.Duration, error) {
	if secs, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(secs) || math.Abs(secs) > math.MaxInt64/float64(time.Second) {
			return 0, fmt.Errorf("%q is not a duration", text)
		}
		return time.Duration(secs * float64(time.Second)), nil
	}
	d, err := parseUnits(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: want seconds or a form such as 1m30s, 12h or 7d", text)
	}
	return d, nil
}

// ParseAge reads a length of time with units: weeks, days and a duration in Go's form, each of them optional, such as
// 2w, 7d, 1w3d12h or 36h. Zero needs no unit, and means what the caller says, such as no limit.
func ParseAge(text string) (time.Duration, error) {
	d, err := parseUnits(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not an age: want a form such as 12h, 7d or 2w", text)
	}
	return d, nil
}

// parseUnits reads a duration in Go's form, with optional weeks and days before it.
func parseUnits(text string) (time.Duration, error) {
	errRange := errors.New("out of range")
	total, rest := time.Duration(0), text
	for _, unit := range []struct {
		name string
		long time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		digits, after, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil {
			return 0, err
		}
		if n > uint64((math.MaxInt64-total)/unit.long) {
			return 0, errRange
		}
		total, rest = total+time.Duration(n)*unit.long, after
	}
	if rest == "" && text != "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, err
	}
	if total > 0 && (d < 0 || d > math.MaxInt64-total) {
		return 0, errRange
	}
	return total + d, nil
}

// ParseDate reads a day or an RFC 3339 time.
func ParseDate(text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a date such as 2026-01-31", text)
}

// listValue is a list of texts. With split, one text may hold several, separated by commas. An empty text clears the
// list.
type listValue struct {
	p     *[]string
	usual []string
	split bool
	most  int // items
	check func(string) error
	files bool // an item @FILE stands for the lines of a file: see ReadItems
	// words: the text none clears the list too, and the item default stands for the usual items.
	words bool
}

// Set adds to the list.
func (v listValue) Set(text string) error { return v.take(slices.Clone(*v.p), []string{text}) }

// take sets the list to items followed by those in texts. An empty text drops all items before it. The error names
// every bad item.
func (v listValue) take(items, texts []string) error {
	var errs []error
	for _, text := range texts {
		if text == "" || v.words && text == "none" {
			items = nil
			continue
		}
		if !v.split {
			items = append(items, text)
			continue
		}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); v.words && item == "default" {
				items = append(items, v.usual...)
			} else {
				items = append(items, item)
			}
		}
	}
	if len(items) > v.most {
		return fmt.Errorf("it has %d values, at most %d are allowed", len(items), v.most)
	}
	for i, item := range items {
		if path, isFile := strings.CutPrefix(item, "@"); v.files && isFile {
			if abs, err := filepath.Abs(path); err == nil {
				items[i] = "@" + abs
			}
		} else if v.check != nil {
			errs = append(errs, v.check(item))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	*v.p = items
	return nil
}

// ReadFiles replaces the items @FILE of a list by what the files hold.
func (e *Entry) ReadFiles() (err error) {
	if list, ok := e.Value.(listValue); ok && list.files {
		*list.p, err = ReadItems(*list.p, list.check)
	}
	return err
}

// maxItemsFile bounds a file of items, in bytes.
const maxItemsFile = 1 << 20

// ReadItems returns the items of a list. An item @FILE is replaced by the lines of the file, without blank ones and
// those that begin with #. Each line must pass the check. The error does not repeat a line, which may be a secret.
func ReadItems(items []string, check func(string) error) (out []string, err error) {
	var faults []error
	for _, item := range items {
		path, isFile := strings.CutPrefix(item, "@")
		if !isFile {
			out = append(out, item)
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		text, err := io.ReadAll(io.LimitReader(file, maxItemsFile+1))
		file.Close()
		if err == nil && len(text) > maxItemsFile {
			err = fmt.Errorf("%s has more than %d bytes", path, maxItemsFile)
		}
		faults = append(faults, err)
		n := 0
		for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) { // editors of Windows begin with it
			n++
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			if err := check(line); err != nil {
				faults = append(faults, fmt.Errorf("%s line %d: %w", path, n, err))
			}
			out = append(out, line)
		}
	}
	return out, errors.Join(faults...)
}

func (v listValue) String() string { return strings.Join(*v.p, ",") }
func (v listValue) JSON() any      { return append([]string{}, *v.p...) }
func (v listValue) reset()         { *v.p = slices.Clone(v.usual) }

// Type is "list" if one text may hold several items, else "text".
func (v listValue) Type() string {
	if v.split {
		return "list"
	}
	return "text"
}
