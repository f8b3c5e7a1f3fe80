package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Codes of faults that FromJSON names.
const (
	FaultForm    = "bad_form"        // the value is not of a form that a setting has
	FaultUnknown = "unknown_setting" // there is no such setting
)

// FromJSON makes a layer from a JSON object whose keys are file keys, as in a submission to a service. order has the
// names of the settings in the order of the object. FromJSON calls fault for each setting that cannot be read.
func FromJSON(text json.RawMessage, fault func(field, code, format string, args ...any)) (layer Layer, order []string) {
	layer = Layer{}
	if text = bytes.TrimSpace(text); len(text) == 0 || string(text) == "null" {
		return layer, nil
	}
	if !json.Valid(text) || text[0] != '{' {
		fault("settings", FaultForm, "settings must be a JSON object such as {\"max_urls\": 100}")
		return layer, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_, _ = d.Token() // the brace
	seen := map[string]bool{}
	table := new(Settings).Table()
	for d.More() {
		token, err := d.Token()
		var value any
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			fault("settings", FaultForm, "settings cannot be read: %v", err)
			break
		}
		key := token.(string) // nothing else is a key in JSON
		bad := func(code, format string, args ...any) { fault("settings."+key, code, format, args...) }
		if seen[key] {
			bad(FaultForm, "it is given twice")
			continue
		}
		seen[key] = true
		if gone := strings.ReplaceAll(key, "_", "-"); Removed(gone) != "" {
			if value != nil {
				layer[gone] = Given{From: "settings." + key} // Load warns
			}
			continue
		}
		items, isList := value.([]any)
		if !isList {
			items = []any{value}
		}
		name, list, advice := settingOf(table, key)
		texts, ok := textsOf(items, jsonText)
		switch {
		case name == "":
			bad(FaultUnknown, "there is no such setting%s", advice)
		case value == nil: // as if it were not given
		case !ok:
			bad(FaultForm, "it must be a text, a number, true, false or a list of texts")
		case isList && !list:
			bad(FaultForm, "it takes one value, not a list")
		default:
			layer[name] = Given{Texts: texts, From: "settings." + FileKey(name)}
			order = append(order, name)
		}
	}
	given := layer
	layer, err := given.SpellOut()
	EachFault(err, func(short string, err error) { fault("settings."+short, FaultForm, "%s", err) })
	order = slices.DeleteFunc(order, func(name string) bool { _, ok := layer[name]; return !ok })
	for _, name := range slices.Sorted(maps.Keys(layer)) {
		if _, ok := given[name]; !ok {
			order = append(order, name)
		}
	}
	return layer, order
}

// SpellOutJSON returns submitted settings with settings instead of Shorts. Null of a Short stands for null of each of
// its settings, and null of a setting counts as not given beside a Short. It does not change given. A Short whose value
// is bad, or beside which a setting has another value, stays: FromJSON names the fault.
func SpellOutJSON(given map[string]json.RawMessage) map[string]json.RawMessage {
	const null = "null"
	out := maps.Clone(given)
	for _, short := range Shorts() {
		raw, ok := given[short.Name]
		if !ok {
			continue
		}
		var value any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			continue
		}
		text, isText := jsonText(value)
		if value == nil {
			text, isText = map[string]string{"bool": "true", "duration": "0s"}[short.Kind], true
		}
		settings, err := short.means(text)
		beside := map[string]json.RawMessage{} // its settings that have values
		for name := range settings {
			if other, ok := given[FileKey(name)]; ok && string(other) != null {
				beside[FileKey(name)] = other
			}
		}
		if err != nil || !isText || value != nil && len(beside) > 0 {
			continue
		}
		delete(out, short.Name)
		for name, text := range settings {
			if out[FileKey(name)] = toJSON(text); value == nil {
				out[FileKey(name)] = json.RawMessage(null)
			}
		}
		maps.Copy(out, beside)
	}
	return out
}

// settingOf finds a setting by its file key. If there is none, advice says what the caller may mean.
func settingOf(table []Entry, key string) (name string, list bool, advice string) {
	switch key {
	case ProfileName, SafeName:
		return key, false, ""
	case FileKey(StartURLName):
		return "", false, "; start URLs are given as start_urls, beside settings"
	}
	for _, short := range Shorts() {
		if short.Name == key {
			return key, false, ""
		}
	}
	for _, e := range table {
		_, list := e.Value.(listValue)
		switch {
		case FileKey(e.Name) == key:
			return e.Name, list, ""
		case e.Name == key, slices.Contains(e.Flags, strings.ReplaceAll(key, "_", "-")):
			advice = "; its name is " + FileKey(e.Name)
		}
	}
	return "", false, advice
}

// jsonText is a JSON text, number or truth value as a text.
func jsonText(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		_, err := v.Float64() // readers of the settings may decode numbers as float64
		return v.String(), err == nil
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

// Redact returns submitted settings without the values that [Settings.Redacted] hides. It does not change given.
func Redact(given map[string]json.RawMessage) map[string]json.RawMessage {
	shown := maps.Clone(given)
	for _, e := range new(Settings).Table() {
		hide, key := e.hide(), FileKey(e.Name)
		text, ok := given[key]
		if !ok || hide == nil {
			continue
		}
		var one string
		var list []string
		if json.Unmarshal(text, &one) == nil {
			shown[key] = toJSON(hide(one))
		} else if json.Unmarshal(text, &list) == nil {
			shown[key] = toJSON(hideAll(list, hide))
		}
	}
	return shown
}

// toJSON encodes texts.
func toJSON(v any) json.RawMessage {
	text, _ := json.Marshal(v) // texts can always be encoded
	return text
}
