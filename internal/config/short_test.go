package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A short form is the settings that it stands for, in the layer that gives it.
func TestShortForms(t *testing.T) {
	env, err := FromEnv([]string{"MAPWRIGHT_DELAY=1.5", "MAPWRIGHT_LIST=no", "MAPWRIGHT_VERBOSE=on"})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(Layer{"min-delay-ms": {[]string{"10"}, "file"}, "base-delay-ms": {[]string{"9000"}, "file"}}, env,
		flags("max-delay-ms", "4000"))
	if err != nil {
		t.Fatal(err)
	}
	s := loaded.Settings
	if s.MinDelayMS != 1500 || s.MaxDelayMS != 4000 || s.BaseDelayMS != 0 || s.MaxDepth != -1 || s.LogLevel != "debug" ||
		!s.NoProgress {
		t.Errorf("got %+v", s)
	}
	if from := loaded.Origin["min-delay-ms"]; from != "environment MAPWRIGHT_DELAY" {
		t.Errorf("min-delay-ms is from %s", from)
	}
	for _, short := range Shorts() {
		settings, err := short.means(map[string]string{"bool": "true", "duration": "1s"}[short.Kind])
		if err != nil {
			t.Errorf("%s: %v", short.Name, err)
		}
		for name := range settings {
			i := slices.IndexFunc(s.Table(), func(e Entry) bool { return e.Name == name })
			if i < 0 || s.Table()[i].PerRun != short.PerRun {
				t.Errorf("%s sets %s, which is not a setting of this kind", short.Name, name)
			}
		}
	}
}

// A request may use short forms. Its permissions are those of the settings.
func TestShortFormsInJSON(t *testing.T) {
	var faults []string
	read := func(text string) (Layer, []string) {
		faults = nil
		return FromJSON(json.RawMessage(text), func(field, code, format string, args ...any) {
			faults = append(faults, field+" "+code+" "+fmt.Sprintf(format, args...))
		})
	}
	layer, order := read(`{"delay": 2, "list": true, "max_urls": 5}`)
	if len(faults) > 0 || layer["max-delay-ms"].Texts[0] != "2000" || layer["max-depth"].Texts[0] != "0" ||
		!slices.Equal(order, []string{"max-urls", "base-delay-ms", "max-delay-ms", "max-depth", "min-delay-ms"}) {
		t.Errorf("got %v, %v, %v", layer, order, faults)
	}
	read(`{"delay": "soon", "list": true, "max_depth": 2}`)
	if len(faults) != 2 || !strings.HasPrefix(faults[0], "settings.delay bad_form") ||
		!strings.Contains(faults[1], "settings.list bad_form it sets max-depth, which settings.max_depth sets too") {
		t.Errorf("faults %q", faults)
	}
}

// Submitted settings are kept without short forms. Those with faults stay as they are.
func TestSpellOutJSON(t *testing.T) {
	for given, want := range map[string]string{
		`{"delay": 2, "list": true, "max_urls": 5}`: `{"base_delay_ms":"0","max_delay_ms":"2000","max_depth":"0",` +
			`"max_urls":5,"min_delay_ms":"2000"}`,
		`{"list": false}`:                   `{}`,
		`{"list": null}`:                    `{"max_depth":null}`,
		`{"delay": null}`:                   `{"base_delay_ms":null,"max_delay_ms":null,"min_delay_ms":null}`,
		`{"delay": "soon", "list": [true]}`: `{"delay":"soon","list":[true]}`,
		`{"list": true, "max_depth": 2}`:    `{"list":true,"max_depth":2}`,
		`{"list": null, "max_depth": 2}`:    `{"max_depth":2}`,
	} {
		var settings map[string]json.RawMessage
		if err := json.Unmarshal([]byte(given), &settings); err != nil {
			t.Fatal(err)
		}
		if got := string(toJSON(SpellOutJSON(settings))); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

// Whatever is given beside a short form, settings mean the same before and after they are spelled out. Only those that
// are refused keep a short form.
func TestSpellOutKeepsTheMeaning(t *testing.T) {
	values := map[string][]string{"bool": {"null", "true", `"off"`, "7"}, "duration": {"null", "2", `"0s"`, `"soon"`}}
	for _, short := range Shorts() {
		meant, err := short.means(map[string]string{"bool": "true", "duration": "1s"}[short.Kind])
		if err != nil {
			t.Fatal(err)
		}
		cases := []map[string]json.RawMessage{}
		for _, value := range values[short.Kind] {
			cases = append(cases, map[string]json.RawMessage{short.Name: json.RawMessage(value)})
		}
		for name := range meant {
			for _, c := range cases {
				for _, beside := range []string{"null", "1"} {
					more := maps.Clone(c)
					more[FileKey(name)] = json.RawMessage(beside)
					cases = append(cases, more)
				}
			}
		}
		for _, given := range cases {
			spelled := SpellOutJSON(given)
			read := func(settings map[string]json.RawMessage) (texts map[string][]string, faults int) {
				layer, _ := FromJSON(toJSON(settings), func(string, string, string, ...any) { faults++ })
				texts = map[string][]string{}
				for name, given := range layer {
					texts[name] = given.Texts
				}
				return texts, faults
			}
			want, faults := read(given)
			got, _ := read(spelled)
			if _, stays := spelled[short.Name]; stays != (faults > 0) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s is %s with %d faults: %v, want %v", toJSON(given), toJSON(spelled), faults, got, want)
			}
			if raw := string(given[short.Name]); raw == "null" {
				for name := range meant { // PATCH takes away what has no value
					if _, ok := spelled[FileKey(name)]; !ok {
						t.Errorf("%s leaves %s as it is", toJSON(given), name)
					}
				}
			}
		}
	}
}
