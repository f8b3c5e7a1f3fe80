package parser

// An amount of money is a number next to which there is the sign or the code of a currency.

// maxCurrency is how many bytes a piece of text may have that is nothing but a currency, spaces included.
const maxCurrency = 16

// amountEnd is where an amount ends whose first digits end at n, in a text as written.
func amountEnd(text []byte, n int) int {
	for n < len(text) && (isSeparator(text[n]) && n+1 < len(text) && isDigit(text[n+1]) || isDigit(text[n])) {
		n++
	}
	return n
}

// isSeparator knows what stands between the digits of an amount.
func isSeparator(c byte) bool { return c == '.' || c == ',' || c == '\'' }

// isSign knows the signs of currencies as they are written in HTML.
func isSign(s string) bool {
	switch s {
	case "$", "€", "£", "¥", "₹", "₽", "₩", "₺", "zł", "Kč", "&euro;", "&pound;", "&yen;":
		return true
	}
	return false
}

// isCode knows the codes of currencies.
func isCode(s string) bool {
	switch s {
	case "EUR", "USD", "GBP", "CHF", "JPY", "CNY", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "INR", "BRL":
		return true
	}
	return false
}

// isAmountSpace knows the spaces that stand between an amount and its currency.
func isAmountSpace(s string) bool {
	return s == " " || s == "\u00a0" || s == "\u202f" || s == "&nbsp;"
}

// signLengths, codeLength and spaceLengths are how many bytes the texts above have.
func signLengths() [6]int  { return [...]int{1, 2, 3, 5, 6, 7} }
func spaceLengths() [4]int { return [...]int{1, 2, 3, 6} }

const codeLength = 3

// trimAmountSpace takes the spaces from the start of a text that may stand before a currency.
func trimAmountSpace(text []byte) []byte {
	for _, n := range spaceLengths() {
		if n <= len(text) && isAmountSpace(string(text[:n])) {
			text = text[n:]
		}
	}
	return text
}

// mayBeCurrency knows the bytes that a currency, or a space beside it that is no ASCII space, begins or ends with. Most numbers
// have no such byte next to them.
func mayBeCurrency(c byte) bool {
	return 'A' <= c && c <= 'Z' || c >= 0x80 || c == '$' || c == '&' || c == ';' || c == 'z'
}

func endsWithCurrency(text []byte) bool {
	n := len(text)
	if n > 1 && text[n-1] == ' ' {
		n--
	}
	if n == 0 || !mayBeCurrency(text[n-1]) {
		return false
	}
	for _, n := range spaceLengths() {
		if end := len(text) - n; end >= 0 && isAmountSpace(string(text[end:])) {
			text = text[:end]
		}
	}
	for _, n := range signLengths() {
		if n <= len(text) && isSign(string(text[len(text)-n:])) {
			return true
		}
	}
	before := len(text) - codeLength
	return before >= 0 && isCode(string(text[before:])) && (before == 0 || !isLetter(text[before-1]))
}

func beginsWithCurrency(text []byte) bool {
	n := 0
	if len(text) > 1 && text[0] == ' ' {
		n = 1
	}
	if len(text) == 0 || !mayBeCurrency(text[n]) {
		return false
	}
	text = trimAmountSpace(text)
	for _, n := range signLengths() {
		if n <= len(text) && isSign(string(text[:n])) {
			return true
		}
	}
	return len(text) >= codeLength && isCode(string(text[:codeLength])) && (len(text) == codeLength || !isLetter(text[codeLength]))
}
