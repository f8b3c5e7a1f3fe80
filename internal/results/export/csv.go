package export

import (
	"unicode/utf8"

	"github.com/mapwright/mapwright/internal/page"
)

// csvCell makes a text safe to open in a spreadsheet: control characters become escapes, and a text that a spreadsheet
// would take for a formula gets an apostrophe before it, which spreadsheets read as "this is text".
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
