package view

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ink is how a piece of text looks: the parameters of the escape sequence that sets it.
type ink string

const (
	plain  ink = ""
	bold   ink = "1"
	faint  ink = "2"
	green  ink = "32"
	yellow ink = "33"
)

// span is a piece of text in one ink, row a line of them.
type (
	span struct {
		ink  ink
		text string
	}
	row []span
)

// text writes a row, cut to the width.
func (r row) text(most int, color bool) string {
	var b strings.Builder
	for _, s := range r {
		text := clean(s.text)
		if n := width(text); n > most {
			text = string([]rune(text)[:max(0, most)])
		}
		most -= width(text)
		if color && s.ink != plain && text != "" {
			b.WriteString("\x1b[" + string(s.ink) + "m" + text + "\x1b[0m")
		} else {
			b.WriteString(text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// width is how many cells a text takes. Everything that is drawn is ASCII, or one of a few characters of one cell: host
// names and URLs are in their canonical form.
func width(text string) int { return utf8.RuneCountInString(text) }

// clean replaces the control characters of a text, so that it cannot change the terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, text)
}

// cut shortens a text to n cells. A mark at its end shows that it is shortened.
func (s Screen) cut(text string, n int) string {
	text = clean(text)
	if width(text) <= n {
		return text
	}
	mark := "~"
	if s.Unicode {
		mark = "…"
	}
	if n <= 0 {
		return ""
	}
	return string([]rune(text)[:n-1]) + mark
}

// left and right fill a text up to n cells.
func (s Screen) left(text string, n int) string {
	text = s.cut(text, n)
	return text + strings.Repeat(" ", max(0, n-width(text)))
}

func (s Screen) right(text string, n int) string {
	text = s.cut(text, n)
	return strings.Repeat(" ", max(0, n-width(text))) + text
}

// wrap breaks a text into lines of at most n cells, between words where it can.
func wrap(text string, n int) []string {
	var out []string
	at := ""
	for _, word := range strings.Fields(clean(text)) {
		for {
			switch {
			case at == "" && width(word) <= n:
				at, word = word, ""
			case at != "" && width(at)+1+width(word) <= n:
				at, word = at+" "+word, ""
			case at != "":
				out, at = append(out, at), ""
			default: // a word that is longer than the line
				runes := []rune(word)
				out, word = append(out, string(runes[:max(1, n)])), string(runes[min(len(runes), max(1, n)):])
			}
			if word == "" {
				break
			}
		}
	}
	if at != "" {
		out = append(out, at)
	}
	return out
}
