package commands

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// screen is a terminal as far as the program may use one: two pages of cells, a cursor, and the escape sequences that
// are written here. Any other is a mistake of the program, and kept.
type screen struct {
	cols, rows int
	cells      [][]rune // of the page that shows
	other      [][]rune // the first page, while the second shows
	second     bool
	x, y       int
	atX, atY   int  // the first page's cursor
	wrapping   bool // the last cell of a line is written; the next character goes to the next line
	hidden     bool // the cursor
	colors     int  // sequences that set colours
	times      int  // that the second page was taken
	strange    []string
	rest       []byte // of a sequence that is not all there yet
}

func newScreen(cols, rows int) *screen {
	s := &screen{cols: cols, rows: rows}
	s.cells = s.blank()
	return s
}

func (s *screen) blank() [][]rune {
	page := make([][]rune, s.rows)
	for i := range page {
		page[i] = slices.Repeat([]rune{' '}, s.cols)
	}
	return page
}

// resize keeps what is in the top left corner, as terminals do with their second page.
func (s *screen) resize(cols, rows int) {
	s.cols, s.rows = cols, rows
	fit := func(page [][]rune) [][]rune {
		fresh := s.blank()
		for y := range min(rows, len(page)) {
			copy(fresh[y], page[y])
		}
		return fresh
	}
	s.cells = fit(s.cells)
	if s.other != nil {
		s.other = fit(s.other)
	}
	s.x, s.y, s.wrapping = min(s.x, cols-1), min(s.y, rows-1), false
}

// lines are what shows, without the empty ends of lines.
func (s *screen) lines() []string {
	var out []string
	for _, row := range s.cells {
		out = append(out, strings.TrimRight(string(row), " "))
	}
	return out
}

func (s *screen) String() string { return strings.TrimRight(strings.Join(s.lines(), "\n"), "\n") }

// Write takes what the program writes.
func (s *screen) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for len(s.rest) > 0 {
		n := s.step(s.rest)
		if n == 0 {
			break
		}
		s.rest = s.rest[n:]
	}
	return len(p), nil
}

// step takes one character or sequence and returns its length, or 0 if it is not all there.
func (s *screen) step(b []byte) int {
	switch c := b[0]; {
	case c == '\r':
		s.x, s.wrapping = 0, false
		return 1
	case c == '\n':
		s.newline()
		return 1
	case c == 0x1b:
		return s.escape(b)
	case c < ' ':
		s.strange = append(s.strange, fmt.Sprintf("%q", c))
		return 1
	}
	if !utf8.FullRune(b) {
		return 0
	}
	r, n := utf8.DecodeRune(b)
	s.put(r)
	return n
}

func (s *screen) put(r rune) {
	if s.wrapping {
		s.x = 0
		s.newline()
	}
	s.cells[s.y][s.x] = r
	if s.x == s.cols-1 {
		s.wrapping = true
	} else {
		s.x++
	}
}

func (s *screen) newline() {
	s.wrapping = false
	if s.y < s.rows-1 {
		s.y++
		return
	}
	s.cells = append(s.cells[1:], slices.Repeat([]rune{' '}, s.cols))
}

// escape takes a sequence: ESC [ parameters letter.
func (s *screen) escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != '[' {
		s.strange = append(s.strange, fmt.Sprintf("%q", b[:2]))
		return 2
	}
	end := slices.IndexFunc(b[2:], func(c byte) bool { return c >= '@' && c <= '~' })
	if end < 0 {
		return 0
	}
	s.control(string(b[2:2+end]), b[2+end])
	return 3 + end
}

func (s *screen) control(params string, letter byte) {
	n, _ := strconv.Atoi(params)
	switch {
	case letter == 'm':
		s.colors++
	case letter == 'H':
		row, col, _ := strings.Cut(params, ";")
		y, _ := strconv.Atoi(row)
		x, _ := strconv.Atoi(col)
		s.y, s.x, s.wrapping = min(max(y, 1), s.rows)-1, min(max(x, 1), s.cols)-1, false
	case letter == 'A':
		s.y = max(0, s.y-max(1, n))
	case letter == 'J' && params == "2":
		s.cells = s.blank()
	case letter == 'J' && n == 0:
		s.erase(s.y, s.x)
		for y := s.y + 1; y < s.rows; y++ {
			s.erase(y, 0)
		}
	case letter == 'K' && params == "2":
		s.erase(s.y, 0)
	case letter == 'K' && n == 0:
		s.erase(s.y, s.x)
	case letter == 'h' && params == "?1049" && !s.second:
		s.other, s.atX, s.atY = s.cells, s.x, s.y
		s.cells, s.second = s.blank(), true
		s.times++
	case letter == 'l' && params == "?1049" && s.second:
		s.cells, s.other, s.second = s.other, nil, false
		s.x, s.y, s.wrapping = min(s.atX, s.cols-1), min(s.atY, s.rows-1), false
	case letter == 'l' && params == "?25":
		s.hidden = true
	case letter == 'h' && params == "?25":
		s.hidden = false
	case letter == 'l' && slices.Contains([]string{"?2004", "?1002", "?1003", "?1006"}, params):
		// what was never on is put off
	default:
		s.strange = append(s.strange, fmt.Sprintf("ESC[%s%c", params, letter))
	}
}

func (s *screen) erase(y, from int) {
	for x := from; x < s.cols; x++ {
		s.cells[y][x] = ' '
	}
}
