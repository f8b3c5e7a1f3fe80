package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// A Submission is what a caller of a service asks of a crawl, and what the caller may ask.
type Submission struct {
	// Base are the layers of the operator, the lowest first. They must be valid.
	Base []Layer
	// Settings is a JSON object by file keys. Empty means none.
	Settings json.RawMessage
	// StartHosts are the hosts of the start URLs, in their order, as weburl.URL.Host gives them.
	StartHosts []string
	// Admin means that the caller has the scope admin.
	Admin bool
	// Hosts are granted to the caller's account, as NewHostSet reads them.
	Hosts []string
}

// Codes of faults.
const (
	FaultForm       = "bad_form"        // the value is not of a form that a setting has
	FaultUnknown    = "unknown_setting" // there is no such setting
	FaultValue      = "bad_value"       // the setting does not take the value, or not beside another one
	FaultPermission = "not_permitted"   // the caller may not use the setting, or not with this value
	// the setting may be used for hosts that are granted to the account, and another one is concerned
	FaultHost        = "host_not_granted"
	FaultPrivateHost = "private_address" // a start URL names an address that is not public
	FaultSize        = "too_large"       // the settings have too many bytes
)

// A Fault is one reason why a submission is refused.
type Fault struct {
	Field  string `json:"field"` // such as settings.max_urls or start_urls[2]
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

const (
	// MaxSettings bounds the settings of a submission, in bytes of JSON.
	MaxSettings = 64 << 10

	maxUserAgent = 256 // bytes of the User-Agent of a tenant
	maxFaults    = 100 // that a refusal names
)

// Load returns the settings of the crawl, or every reason why it is refused. If the caller uses settings that are for
// hosts of the account, the crawl is bound to these hosts by only-hosts.
func (s *Submission) Load() (*Loaded, []Fault) {
	r := submissionReader{layer: Layer{}}
	if len(s.Settings) > MaxSettings {
		r.fault("settings", FaultSize, "settings have %d bytes, at most %d are allowed", len(s.Settings), MaxSettings)
		return nil, r.faults
	}
	r.read(s.Settings)
	owned := r.withhold(s)
	r.judgeTexts(s)
	bound := r.bind(s, owned)
	for i, host := range s.StartHosts {
		if why := privateName(host); why != "" && !s.Admin {
			r.fault(startField(i), FaultPrivateHost,
				"%s is not a public address (%s); only an admin may start a crawl there", host, why)
		}
	}
	base := r.base(s.Base)
	loaded, err := Load(append(base, r.layer)...)
	for _, err := range leaves(err) {
		r.addError(err)
	}
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	if operators, err := Load(append(base, r.profile())...); err == nil { // its warnings are no concern of the caller
		loaded.Warnings = slices.DeleteFunc(loaded.Warnings,
			func(text string) bool { return slices.Contains(operators.Warnings, text) })
	}
	if bound != nil {
		loaded.Settings.OnlyHosts = bound
		loaded.Origin["only-hosts"] = "hosts granted to the account"
	}
	return loaded, nil
}

// base are the operator's layers for this submission. Headers and the origins that get them go together: if the caller
// gives one of the two, those of the operator are left out, or the caller could have the operator's headers sent
// anywhere.
func (r *submissionReader) base(layers []Layer) []Layer {
	_, headers := r.layer["header"]
	_, origins := r.layer["header-to"]
	out := slices.Clone(layers)
	for i := range out {
		if headers || origins {
			out[i] = maps.Clone(out[i])
			delete(out[i], "header")
			delete(out[i], "header-to")
		}
	}
	return out
}

// profile is the part of the layer that chooses the profile.
func (r *submissionReader) profile() Layer {
	part := Layer{}
	for _, name := range []string{ProfileName, SafeName} {
		if given, ok := r.layer[name]; ok {
			part[name] = given
		}
	}
	return part
}

// Redact hides in settings that were submitted what [Settings.Redacted] hides. The object itself is not changed.
func Redact(given map[string]json.RawMessage) map[string]json.RawMessage {
	shown := maps.Clone(given)
	for _, e := range new(Settings).Table() {
		hide := hideHeader
		if v, ok := e.Value.(stringValue); ok && v.form == formURL {
			hide = weburl.HideUserinfo
		} else if e.Name != "header" {
			continue
		}
		key := FileKey(e.Name)
		text, ok := given[key]
		if !ok {
			continue
		}
		var one string
		var list []string
		if json.Unmarshal(text, &one) == nil {
			shown[key] = toJSON(hide(one))
		} else if json.Unmarshal(text, &list) == nil {
			for i := range list {
				list[i] = hide(list[i])
			}
			shown[key] = toJSON(list)
		}
	}
	return shown
}

// toJSON encodes texts.
func toJSON(v any) json.RawMessage {
	text, _ := json.Marshal(v) // texts can always be encoded
	return text
}

// submissionReader gathers the settings of one submission and its faults.
type submissionReader struct {
	layer  Layer
	order  []string // names of the settings in layer, as they are given
	faults []Fault
}

// fault adds a fault. Of very many the first are enough to refuse the submission.
func (r *submissionReader) fault(field, code, format string, args ...any) {
	if len(r.faults) == maxFaults {
		return
	}
	r.faults = append(r.faults, Fault{field, code, fmt.Sprintf(format, args...)})
}

func settingField(name string) string { return "settings." + FileKey(name) }

func startField(i int) string { return fmt.Sprintf("start_urls[%d]", i) }

// read takes the object apart.
func (r *submissionReader) read(text json.RawMessage) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || string(text) == "null" {
		return
	}
	if !json.Valid(text) || text[0] != '{' {
		r.fault("settings", FaultForm, "settings must be a JSON object such as {\"max_urls\": 100}")
		return
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_, _ = d.Token() // the brace
	seen := map[string]bool{}
	table := new(Settings).Table()
	for d.More() && len(r.faults) < maxFaults {
		key, err := d.Token()
		var value any
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			r.fault("settings", FaultForm, "settings cannot be read: %v", err)
			return
		}
		name := key.(string) // nothing else is a key in JSON
		if seen[name] {
			r.fault("settings."+name, FaultForm, "it is given twice")
			continue
		}
		seen[name] = true
		r.readSetting(table, name, value)
	}
}

// readSetting takes one key with its value. Null is as if the setting were not given.
func (r *submissionReader) readSetting(table []Entry, key string, value any) {
	if gone := strings.ReplaceAll(key, "_", "-"); Removed(gone) != "" {
		r.layer[gone] = Given{From: "settings." + key} // Load warns
		return
	}
	name, list, advice := settingOf(table, key)
	if name == "" {
		r.fault("settings."+key, FaultUnknown, "there is no such setting%s", advice)
		return
	}
	items, isList := value.([]any)
	if !isList {
		items = []any{value}
	}
	texts, ok := textsOf(items, jsonText)
	switch {
	case value == nil:
	case !ok:
		r.fault("settings."+key, FaultForm, "it must be a text, a number, true, false or a list of texts")
	case isList && !list:
		r.fault("settings."+key, FaultForm, "it takes one value, not a list")
	default:
		r.layer[name] = Given{Texts: texts, From: settingField(name)}
		r.order = append(r.order, name)
	}
}

// settingOf finds a setting by its file key. If there is none, advice says what the caller may mean.
func settingOf(table []Entry, key string) (name string, list bool, advice string) {
	switch key {
	case ProfileName, SafeName:
		return key, false, ""
	case FileKey(StartURLName):
		return "", false, "; start URLs are given as start_urls, beside settings"
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
		_, err := v.Float64() // readers of the settings may keep numbers so
		return v.String(), err == nil
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

// withhold takes the settings out of the layer that the caller may not use, and returns those that may be used for
// hosts of the account only.
func (r *submissionReader) withhold(s *Submission) (owned []string) {
	table := map[string]Entry{}
	for _, e := range Defaults(Polite).Table() {
		table[e.Name] = e
	}
	for _, name := range r.order {
		permission, free := r.permissionOf(name, table)
		switch {
		case permission == Operator:
			r.fault(settingField(name), FaultPermission,
				"only the operator of the service may set it, and not in a request")
		case free || permission == Tenant || s.Admin:
			continue
		case permission == OwnHost:
			owned = append(owned, name)
			continue
		case table[name].Free != nil:
			r.fault(settingField(name), FaultPermission, "only an admin may use this value; %s", table[name].Free)
		default: // also a setting that says nothing
			r.fault(settingField(name), FaultPermission, "only an admin may use it")
		}
		delete(r.layer, name)
	}
	return owned
}

// permissionOf says who may use a setting, and whether the value that is given is free for all. A bad value is free: it
// is refused by itself.
func (r *submissionReader) permissionOf(name string, table map[string]Entry) (p Permission, free bool) {
	texts := r.layer[name].Texts
	switch name {
	case ProfileName:
		return profilePermission(Profile(texts[0])), false
	case SafeName:
		return Tenant, false
	}
	e := table[name]
	if e.Permission == Operator {
		return Operator, false
	}
	if err := setAll(e.Value, texts); err != nil {
		return e.Permission, true
	}
	if on, ok := e.Value.(boolValue); ok {
		return e.Permission, !*on.p // a switch that is off permits nothing
	}
	n, ok := numberOf(e.Value)
	return e.Permission, ok && e.Free != nil && e.Free.has(n)
}

// String says which values are free for all.
func (r *Range) String() string {
	if r.AtMost == nil {
		return fmt.Sprintf("others may use %.0f and more", r.AtLeast)
	}
	return fmt.Sprintf("others may use %.0f to %.0f", r.AtLeast, *r.AtMost)
}

// judgeTexts refuses texts by which a tenant would hide who sends the requests, or to whom they go.
func (r *submissionReader) judgeTexts(s *Submission) {
	for _, text := range r.layer["header"].Texts {
		if name, value, _ := strings.Cut(text, ":"); strings.TrimSpace(value) == hiddenValue {
			r.fault(settingField("header"), FaultValue,
				"the value of the header %s is missing: %q is only shown in its place", name, hiddenValue)
		}
	}
	if s.Admin {
		return
	}
	if given, ok := r.layer["user-agent"]; ok {
		base := s.userAgent()
		text := given.Texts[len(given.Texts)-1]
		if rest, ok := strings.CutPrefix(text, base); !ok || rest != "" && rest[0] != ' ' ||
			len(text) > max(maxUserAgent, len(base)) {
			r.fault(given.From, FaultPermission,
				"it may be extended and not replaced: it must begin with %q and a space, and have at most %d bytes",
				base, maxUserAgent)
		}
	}
	if given, ok := r.layer["header"]; ok {
		for _, text := range given.Texts {
			name, _, _ := strings.Cut(text, ":")
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); isWithheld(name) {
				r.fault(given.From, FaultPermission, "only an admin may set the header %s", name)
			}
		}
	}
}

// userAgent is what requests say if the caller sets nothing.
func (s *Submission) userAgent() string {
	if base, err := Load(s.Base...); err == nil && base.Settings.UserAgent != "" {
		return base.Settings.UserAgent
	}
	return fetch.DefaultUserAgent
}

// isWithheld says whether a header tells who sends a request, from which address, to which host, for whom, or belongs
// to the connection. Servers behind proxies believe many names for the address and the user of a client; those that
// make variables of names do not tell _ and . from -.
func isWithheld(name string) bool {
	name = strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
	return slices.Contains(withheldHeaders(), name) ||
		slices.ContainsFunc([]string{"x-original-", "x-rewrite-", "proxy-"},
			func(p string) bool { return strings.HasPrefix(name, p) }) ||
		slices.ContainsFunc(strings.Split(name, "-"), func(word string) bool {
			return strings.HasPrefix(word, "ipv") || strings.HasPrefix(word, "forwarded") ||
				slices.Contains([]string{"ip", "clientip", "realip", "remoteip", "socketip", "addr", "address",
					"remote", "override"}, word)
		})
}

func withheldHeaders() []string {
	return []string{"connection", "content-length", "expect", "from", "host", "keep-alive", "te", "trailer",
		"transfer-encoding", "upgrade", "user-agent", "via", "x-host"}
}

// bind returns the hosts that the crawl is bound to because of the settings owned; nil if there are none. The start
// hosts must be granted, and so must those of only-hosts, if that is given.
func (r *submissionReader) bind(s *Submission, owned []string) []string {
	if len(owned) == 0 {
		return nil
	}
	const rule = "it may be used for hosts that an admin granted to the account only"
	refuse := func(format string, args ...any) {
		for _, name := range owned {
			r.fault(settingField(name), FaultHost, rule+": "+format, args...)
			delete(r.layer, name)
		}
	}
	granted, err := NewHostSet(s.Hosts)
	if err != nil || granted.IsEmpty() {
		refuse("there are none")
		return nil
	}
	for i, host := range s.StartHosts {
		if host != "" && !granted.Has(host) { // one without a host has its own fault
			refuse("%s (%s) is not one", startField(i), host)
			return nil
		}
	}
	given, ok := r.layer["only-hosts"]
	if !ok {
		return slices.Clone(s.Hosts)
	}
	var only []string
	if setAll(listValue{p: &only, split: true, most: maxOnlyHosts, check: checkHostPattern}, given.Texts) != nil {
		return nil // the value is refused by itself
	}
	if set, err := NewHostSet(only); err != nil || set.IsEmpty() || !granted.covers(set) {
		refuse("%s names others", given.From)
		return nil
	}
	return only
}

// addError adds a fault that Load found.
func (r *submissionReader) addError(err error) {
	if err == nil {
		return
	}
	field, detail := "settings", err.Error()
	if of, ok := errors.AsType[*settingError](err); ok {
		field, detail = settingField(of.setting), of.err.Error()
	}
	r.fault(field, FaultValue, "%s", detail)
}

// privateName says why a host that is an address, or means this machine by name, is not public.
func privateName(host string) string {
	if weburl.IsLocalhost(host) {
		return "loopback"
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return ""
	}
	return fetch.NotPublic(addr)
}
