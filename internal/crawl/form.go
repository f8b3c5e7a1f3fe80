package crawl

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A form is an HTML form with its controls.
type form struct {
	id, action string
	base       string // href of the page's base element; empty if it has none
	posts      bool   // its fields are sent as the body of a POST, URL encoded
	controls   []*control
}

// A control is a field of a form, or a button that sends it.
type control struct {
	name, value string
	sent        bool // by a browser, if the user changes nothing
	button      bool
	disabled    bool
	form        int    // index of the form that is open before it; -1 if none is
	formID      string // of the form that its attribute names
}

// fill returns what a browser sends after a user has filled in the fields.
func (f *form) fill(fields url.Values) url.Values {
	out := maps.Clone(fields)
	for _, c := range f.controls {
		if c.sent && c.name != "" && fields[c.name] == nil {
			out.Add(c.name, c.value)
		}
	}
	return out
}

// target is where a form of the page at a URL is sent.
func (f *form) target(at weburl.URL) (weburl.URL, error) {
	if f.action == "" {
		return at, nil // whatever the base is
	}
	base, err := at.Resolve(f.base)
	if err != nil {
		base = at // as browsers do
	}
	return base.Resolve(f.action)
}

// findForm returns the first form of a page that has all fields. The error names the forms that there are.
func findForm(body []byte, fields url.Values) (*form, error) {
	var others []string
	for _, f := range readForms(body) {
		var names []string
		for _, c := range f.controls {
			if c.name != "" && !slices.Contains(names, c.name) {
				names = append(names, c.name)
			}
		}
		missing := false
		for name := range fields {
			missing = missing || !slices.Contains(names, name)
		}
		switch {
		case missing:
			others = append(others, strings.Join(names, ", "))
		case !f.posts:
			return nil, errors.New("the form is not sent with POST as application/x-www-form-urlencoded, and other " +
				"ways are not supported")
		default:
			return f, nil
		}
	}
	want := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
	if len(others) == 0 {
		return nil, fmt.Errorf("the page has no form (it needs one with the fields %s); forms that scripts make are "+
			"not seen", want)
	}
	return nil, fmt.Errorf("the page has no form with the fields %s; it has forms with %s", want,
		strings.Join(others, " and with "))
}

// readForms reads the forms of a page. It follows the tokens and not the tree, because a control belongs to the form
// that is open before it, wherever the tree puts either.
func readForms(body []byte) (forms []*form) {
	var controls []*control
	var list, text *control // the select and the textarea that are open
	var option *control     // the select whose value is the text of the option that is open
	open, base := -1, ""    // index of the form that is open; href of the first base element
	z := html.NewTokenizer(bytes.NewReader(body))
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		t := z.Token()
		if kind == html.TextToken && text != nil {
			text.value += strings.TrimPrefix(t.Data, "\n")
		}
		if kind == html.TextToken && option != nil {
			option.value = strings.Join(strings.Fields(t.Data), " ")
		}
		option = nil
		if kind == html.EndTagToken {
			switch t.Data {
			case "form":
				open = -1
			case "select":
				list = nil
			case "textarea":
				text = nil
			}
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		attr := attributes(t)
		switch t.Data {
		case "form":
			if open < 0 { // a form in a form is none
				open, forms = len(forms), append(forms, newForm(attr))
			}
		case "option":
			_, selected := attr["selected"]
			if list == nil || list.disabled || list.sent && !selected {
				break
			}
			var has bool
			if list.value, has = attr["value"]; !has {
				option = list
			}
			list.sent = true
		case "base":
			if base == "" {
				base = strings.TrimSpace(attr["href"])
			}
		case "input", "button", "select", "textarea":
			c := newControl(t.Data, attr)
			c.form = open
			controls = append(controls, c)
			if t.Data == "select" {
				list = c
			}
			if t.Data == "textarea" {
				text = c
			}
		}
	}
	for _, f := range forms {
		f.base = base
	}
	for _, c := range controls {
		at := c.form
		if c.formID != "" {
			at = slices.IndexFunc(forms, func(f *form) bool { return f.id == c.formID })
		}
		if at < 0 {
			continue
		}
		// A browser sends the first button with the form.
		c.sent = c.sent && !(c.button && slices.ContainsFunc(forms[at].controls,
			func(c *control) bool { return c.button }))
		forms[at].controls = append(forms[at].controls, c)
	}
	return forms
}

// attributes are those of a tag; the first of several with one name counts.
func attributes(t html.Token) map[string]string {
	attr := map[string]string{}
	for _, a := range slices.Backward(t.Attr) {
		attr[a.Key] = a.Val
	}
	return attr
}

func newForm(attr map[string]string) *form {
	kind := strings.ToLower(attr["enctype"])
	return &form{id: attr["id"], action: strings.TrimSpace(attr["action"]),
		posts: strings.EqualFold(attr["method"], "post") && kind != "multipart/form-data" && kind != "text/plain"}
}

// newControl makes a control of an element of this name.
func newControl(element string, attr map[string]string) *control {
	c := &control{name: attr["name"], value: attr["value"], formID: attr["form"]}
	_, c.disabled = attr["disabled"]
	_, checked := attr["checked"]
	c.sent = !c.disabled && element != "select" // the first option makes it so
	switch kind := strings.ToLower(attr["type"]); {
	case kind == "checkbox" || kind == "radio":
		c.sent = c.sent && checked
		if _, has := attr["value"]; !has {
			c.value = "on"
		}
	case kind == "reset" || kind == "button" || kind == "image" || kind == "file":
		c.sent = false
	case element == "button" || element == "input" && kind == "submit":
		c.button = !c.disabled
	}
	return c
}
