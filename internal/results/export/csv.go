package export

import (
	"unicode/utf8"

	"github.com/mapwright/mapwright/internal/page"
)

// csvCell makes a text safe to open in a spreadsheet. Control characters become escapes. If a spreadsheet would take
// the text for a formula, it gets an apostrophe before it, which spreadsheets read as "this is text".
func csvCell(text string) string {
	if text == "" {
		return ""
	}
	switch r, _ := utf8.DecodeRuneInString(text); r {
	case '=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠':
		text = "'" + text
	}
	return page.EscapeControls(text)
}
