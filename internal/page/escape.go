package page

import (
	"io"
	"unicode/utf8"
)

// mustEscape reports whether a character is dangerous where people look at text: C1 controls, of which terminals take
// some for the beginning of a command; DEL; characters that reverse or hide the text around them; and U+2028 and
// U+2029, which end lines in JavaScript.
func mustEscape(r rune) bool {
	switch {
	case r == 0x7f, r >= 0x80 && r <= 0x9f, r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e,
		r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		return true
	}
	return false
}

// EscapeControls replaces control characters except line feed and tab, characters that change the direction of text,
// and bytes that are not UTF-8 by the escapes of JSON. What a server sends is then safe to show on a terminal. A text
// that is JSON keeps its meaning.
func EscapeControls(text string) string {
	for i, r := range text {
		if escaped(r, text[i:]) {
			return string(AppendEscaped(make([]byte, 0, len(text)+16), text))
		}
	}
	return text
}

// escaped reports whether EscapeControls replaces the character r, with which text begins.
func escaped(r rune, text string) bool {
	if r < ' ' {
		return r != '\n' && r != '\t'
	}
	if r == utf8.RuneError {
		_, n := utf8.DecodeRuneInString(text)
		return n == 1
	}
	return mustEscape(r)
}

// AppendEscaped appends text as EscapeControls returns it.
func AppendEscaped[T string | []byte](dst []byte, text T) []byte {
	s := string(text)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if escaped(r, s[i:]) {
			dst = appendHex(dst, r)
		} else {
			dst = append(dst, s[i:i+n]...)
		}
		i += n
	}
	return dst
}

// EscapingWriter writes texts as EscapeControls returns them.
type EscapingWriter struct{ io.Writer }

func (e EscapingWriter) Write(text []byte) (int, error) {
	if isPlain(text) {
		return e.Writer.Write(text)
	}
	if _, err := e.Writer.Write(AppendEscaped(nil, text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// isPlain reports whether text has nothing but printable ASCII and line feeds, which nothing escapes.
func isPlain(text []byte) bool {
	for _, c := range text {
		if (c < ' ' || c >= 0x7f) && c != '\n' {
			return false
		}
	}
	return true
}

// appendHex writes a character below U+10000 as JSON escapes it.
func appendHex(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
