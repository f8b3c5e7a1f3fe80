package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// settingsRequest holds the settings that a caller asks for, and what decides which of them the caller may use.
type settingsRequest struct {
	base       []config.Layer  // of the operator, the lowest first; valid
	settings   json.RawMessage // a JSON object by file keys; empty means none
	startHosts []string        // hosts of the start URLs, in their order, as weburl.URL.Host gives them
	admin      bool            // the caller has the scope admin
	hosts      []string        // granted to the caller's account, as config.NewHostSet reads them
	bound      []string        // hosts to which the crawl is bound already, if it is edited

	layer    config.Layer // the settings that are asked for and permitted
	order    []string     // names of the settings in layer, as they are given
	faults   []FieldError
	warnings []string // about settings that are ignored
}

// Codes of faults of settings; config.FromJSON has others.
const (
	faultValue       = "bad_value"        // the setting does not take the value, or not beside another one
	faultPermission  = "not_permitted"    // the caller may not use the setting, or not with this value
	faultHost        = "host_not_granted" // the setting is for granted hosts, and another one is concerned
	faultPrivateHost = "private_address"  // a start URL names an address that is not public
	faultSize        = "too_large"        // the settings have too many bytes
)

const (
	onlyHosts = "only-hosts"                   // the setting that binds a crawl to hosts
	fromGrant = "hosts granted to the account" // the origin of its value in a crawl that needs a grant
)

const (
	maxSettings  = 64 << 10 // bytes of JSON
	maxUserAgent = 256      // bytes of the User-Agent of a tenant
)

// load returns the settings of the crawl, or every reason why it is refused. If the caller uses settings that are for
// hosts of the account, the crawl is bound to these hosts by only-hosts.
func (r *settingsRequest) load() (*config.Loaded, []FieldError) {
	if len(r.settings) > maxSettings {
		r.fault("settings", faultSize, "settings have %d bytes, at most %d are allowed", len(r.settings), maxSettings)
		return nil, r.faults
	}
	owned := r.withhold()
	r.judgeTexts()
	bound := r.bind(owned)
	base := r.baseLayers()
	operators, operatorsErr := config.Load(append(base, r.profile())...)
	for i, host := range r.startHosts {
		why := privateName(host)
		if why != "" && !r.admin && (operatorsErr != nil || !operators.Settings.AllowPrivate) {
			r.fault(startField(i), faultPrivateHost,
				"%s is not a public address (%s); only an admin may start a crawl there", host, why)
		}
	}
	loaded, err := config.Load(append(base, r.layer)...)
	config.EachFault(err, func(setting string, err error) {
		field := "settings"
		if setting != "" {
			field = settingField(setting)
		}
		r.fault(field, faultValue, "%s", err)
	})
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	// The caller is not told the warnings about the operator's layers.
	if operatorsErr == nil {
		loaded.Warnings = slices.DeleteFunc(loaded.Warnings,
			func(text string) bool { return slices.Contains(operators.Warnings, text) })
	}
	loaded.Warnings = append(loaded.Warnings, r.warnings...)
	if len(bound) > 0 {
		loaded.Settings.OnlyHosts = bound
		loaded.Origin[onlyHosts] = fromGrant
	}
	return loaded, nil
}

// baseLayers are the operator's layers for this request. Headers and the origins that get them go together: if the
// caller gives one of the two, those of the operator are left out. Otherwise the caller could have the operator's
// headers sent anywhere.
func (r *settingsRequest) baseLayers() []config.Layer {
	_, headers := r.layer["header"]
	_, origins := r.layer["header-to"]
	out := slices.Clone(r.base)
	for i := range out {
		if headers || origins {
			out[i] = maps.Clone(out[i])
			delete(out[i], "header")
			delete(out[i], "header-to")
		}
	}
	return out
}

// has reports whether the request gives a setting a value.
func (r *settingsRequest) has(key string) bool {
	for name := range r.layer {
		if config.FileKey(name) == key {
			return true
		}
	}
	return false
}

// profile is the part of the layer that chooses the profile.
func (r *settingsRequest) profile() config.Layer {
	part := config.Layer{}
	for _, name := range []string{config.ProfileName, config.SafeName} {
		if given, ok := r.layer[name]; ok {
			part[name] = given
		}
	}
	return part
}

// fault adds a fault. It keeps only the first ones, which are enough to refuse the submission.
func (r *settingsRequest) fault(field, code, format string, args ...any) {
	if len(r.faults) == maxFaults {
		return
	}
	r.faults = append(r.faults, FieldError{field, code, fmt.Sprintf(format, args...)})
}

func settingField(name string) string { return "settings." + config.FileKey(name) }

func startField(i int) string { return fmt.Sprintf("start_urls[%d]", i) }

// withhold reads the settings, and removes those from the layer that the caller may not use. It returns those that may
// be used only for hosts of the account.
func (r *settingsRequest) withhold() (owned []string) {
	r.layer, r.order = config.FromJSON(r.settings, r.fault)
	table := map[string]config.Entry{}
	for _, e := range config.Defaults(config.Polite).Table() {
		table[e.Name] = e
	}
	for _, name := range r.order {
		permission, free := config.Tenant, false
		if e, ok := table[name]; ok {
			permission, free = e.Permission, e.FreeFor(r.layer[name].Texts)
		} else if name == config.ProfileName && r.layer[name].Texts[0] == string(config.OwnSite) {
			permission = config.OwnHost
		}
		switch {
		case name == "http2": // an earlier version let users choose
			r.warnings = append(r.warnings, settingField(name)+" is ignored: the operator of the service decides")
		case permission == config.Operator:
			r.fault(settingField(name), faultPermission,
				"only the operator of the service may set it, and not in a request")
		case free || permission == config.Tenant || r.admin:
			continue
		case permission == config.OwnHost:
			owned = append(owned, name)
			continue
		case table[name].Free != nil:
			r.fault(settingField(name), faultPermission, "only an admin may use this value; %s", table[name].Free)
		default: // also a setting that says nothing
			r.fault(settingField(name), faultPermission, "only an admin may use it")
		}
		delete(r.layer, name)
	}
	return owned
}

// judgeTexts refuses texts that name files of the server, or by which a tenant would hide who sends the requests, or to
// whom they go.
func (r *settingsRequest) judgeTexts() {
	for _, e := range new(config.Settings).Table() {
		if e.Hide != nil && slices.ContainsFunc(r.layer[e.Name].Texts,
			func(t string) bool { return strings.Contains(t, config.HiddenValue) }) {
			r.fault(settingField(e.Name), faultValue,
				"a value is missing: %q is only shown in its place", config.HiddenValue)
		}
		if e.Local && slices.ContainsFunc(r.layer[e.Name].Texts,
			func(t string) bool { return strings.HasPrefix(t, "@") }) {
			r.fault(settingField(e.Name), faultPermission,
				"it cannot name a file of the server: give what the file holds")
			delete(r.layer, e.Name)
		}
	}
	if r.admin {
		return
	}
	if given, ok := r.layer["user-agent"]; ok {
		base := r.userAgent()
		text := given.Texts[len(given.Texts)-1]
		if rest, ok := strings.CutPrefix(text, base); !ok || rest != "" && rest[0] != ' ' ||
			len(text) > max(maxUserAgent, len(base)) {
			r.fault(given.From, faultPermission,
				"it may be extended and not replaced: it must begin with %q and a space, and have at most %d bytes",
				base, maxUserAgent)
		}
	}
	if given, ok := r.layer["header"]; ok {
		for _, text := range given.Texts {
			name, _, _ := strings.Cut(text, ":")
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); isWithheld(name) {
				r.fault(given.From, faultPermission, "only an admin may set the header %s", name)
			}
		}
	}
}

// userAgent is the User-Agent of requests if the caller sets none.
func (r *settingsRequest) userAgent() string {
	if base, err := config.Load(r.base...); err == nil && base.Settings.UserAgent != "" {
		return base.Settings.UserAgent
	}
	return fetch.DefaultUserAgent
}

// isWithheld says whether a header tells who sends a request, from which address, to which host, for whom, or belongs
// to the connection. Servers behind proxies believe many names for the address and the user of a client. Servers that
// turn names of headers into variables do not distinguish _ and . from -.
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
func (r *settingsRequest) bind(owned []string) []string {
	if r.admin {
		return r.bound // an edit by an admin leaves the crawl bound as it is
	}
	if len(owned) == 0 {
		return nil
	}
	const rule = "it may be used for hosts that an admin granted to the account only"
	refuse := func(format string, args ...any) {
		for _, name := range owned {
			r.fault(settingField(name), faultHost, rule+": "+format, args...)
			delete(r.layer, name)
		}
	}
	granted, err := config.NewHostSet(r.hosts)
	if err != nil || granted.IsEmpty() {
		refuse("there are none")
		return nil
	}
	for i, host := range r.startHosts {
		if host != "" && !granted.Has(host) { // one without a host has its own fault
			refuse("%s (%s) is not one", startField(i), host)
			return nil
		}
	}
	given, ok := r.layer[onlyHosts]
	if !ok {
		return slices.Clone(r.hosts)
	}
	loaded, err := config.Load(config.Layer{onlyHosts: given})
	if err != nil {
		return nil // the value is refused by itself
	}
	only := loaded.Settings.OnlyHosts
	if set, err := config.NewHostSet(only); err != nil || set.IsEmpty() || !granted.Covers(set) {
		refuse("%s names others", given.From)
		return nil
	}
	return only
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
