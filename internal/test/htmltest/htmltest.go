// Package htmltest checks the HTML that this program writes, for tests.
package htmltest

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// void are the elements without an end tag, and those of SVG that are closed where they begin.
const void = " meta link input br rect line polyline "

// Check says what is wrong with a document: an element that is not closed, or closed at another place; an attribute
// that is there twice; an element where none may be, so that a parser of HTML finds other elements than those that are
// written.
func Check(text string) error {
	values := regexp.MustCompile(`="[^"]*"|/?>$`) // what is not the name of an attribute
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	written, open := map[string]int{}, []string{}
	z := html.NewTokenizer(strings.NewReader(text))
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		raw := string(z.Raw())
		token := z.Token()
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			written[token.Data]++
			if !strings.Contains(void, " "+token.Data+" ") {
				open = append(open, token.Data)
			}
			// The tokenizer leaves out attributes that are there twice.
			if n := len(strings.Fields(values.ReplaceAllString(raw, ""))) - 1; n != len(token.Attr) {
				fault("%s has %d attributes, of which %d differ", raw, n, len(token.Attr))
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				return errors.Join(append(faults, fmt.Errorf("</%s> closes %v", token.Data, open))...)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		fault("%v is not closed", open)
	}
	// what is in noscript counts too
	root, err := html.ParseWithOptions(strings.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil {
		return errors.Join(append(faults, err)...)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			written[n.Data]--
		}
	}
	for _, element := range slices.Sorted(maps.Keys(written)) {
		if n := written[element]; n != 0 {
			fault("%d more of %s are written than parsed", n, element)
		}
	}
	return errors.Join(faults...)
}
