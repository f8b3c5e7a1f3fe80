package config

import "fmt"

// A Permission says who may use a setting in a crawl that is submitted to a service. On the command line every setting
// may be used.
type Permission string

// The permissions.
const (
	// Tenant: every account.
	Tenant Permission = "tenant"
	// OwnHost: an account, for hosts that an admin granted to it. Beyond its free range the setting puts more load on
	// hosts than usual.
	OwnHost Permission = "own_host"
	// Admin: a caller with the scope admin. The setting reaches into the network of the service, or costs others.
	Admin Permission = "admin"
	// Operator: not in a request. The setting is about the process that serves.
	Operator Permission = "operator"
)

// A Range is a range of numbers, both ends included: durations in seconds, sizes in bytes.
type Range struct {
	AtLeast float64  `json:"at_least"`
	AtMost  *float64 `json:"at_most,omitempty"` // nil is no limit
}

func between[T int | int64](least, most T) *Range {
	end := float64(most)
	return &Range{AtLeast: float64(least), AtMost: &end}
}

func atLeast(least int) *Range { return &Range{AtLeast: float64(least)} }

func (r *Range) has(n float64) bool { return n >= r.AtLeast && (r.AtMost == nil || n <= *r.AtMost) }

// String says which values are free for all.
func (r *Range) String() string {
	if r.AtMost == nil {
		return fmt.Sprintf("others may use %.0f and more", r.AtLeast)
	}
	return fmt.Sprintf("others may use %.0f to %.0f", r.AtLeast, *r.AtMost)
}

// rangeOf is the value and the range of a setting that is a number, a duration in seconds or a size in bytes; the range
// is nil for others.
func rangeOf(v Value) (n float64, r *Range) {
	if v, ok := v.(interface{ rangeOf() (float64, *Range) }); ok {
		return v.rangeOf()
	}
	return 0, nil
}

// FreeFor reports whether every account may use the values for a setting that is not the operator's: a number in the
// free range, or a switch at its default. A bad value counts as free, because it is refused anyway.
func (e *Entry) FreeFor(texts []string) bool {
	if err := setAll(e.Value, texts); err != nil {
		return true
	}
	if on, ok := e.Value.(boolValue); ok {
		return *on.p == on.usual
	}
	n, of := rangeOf(e.Value)
	return of != nil && e.Free != nil && e.Free.has(n)
}

// SettingInfo describes one setting to callers of a service.
type SettingInfo struct {
	Name       string     `json:"name"` // its key in a submission, which is its key in a configuration file
	Kind       string     `json:"kind"`
	List       bool       `json:"list,omitempty"`    // several values may be given
	Choices    []string   `json:"choices,omitempty"` // the texts that may be given
	Default    any        `json:"default"`
	Range      *Range     `json:"range,omitempty"` // of a number: values beyond it are refused
	Group      Group      `json:"group"`
	Usage      string     `json:"usage"`
	Permission Permission `json:"permission"`
	Free       *Range     `json:"free,omitempty"` // values that every account may use, whatever Permission says
}

// Info describes every setting that a submission may name, with the values of base as defaults: first the profile, then
// the table's.
func Info(base *Settings) []SettingInfo {
	out := []SettingInfo{{Name: ProfileName, Kind: "name", Choices: Profiles(), Default: string(base.Profile),
		Group: Controls, Permission: Tenant,
		Usage: "set of defaults; own-site needs the permission own_host"}}
	for _, e := range base.Redacted().Table() {
		info := SettingInfo{Name: FileKey(e.Name), Kind: e.Value.Type(), Default: e.Value.JSON(), Group: e.Group,
			Usage: e.Usage, Permission: e.Permission, Free: e.Free}
		_, info.Range = rangeOf(e.Value)
		_, info.List = e.Value.(listValue)
		if v, ok := e.Value.(stringValue); ok {
			info.Choices = v.choices
		}
		out = append(out, info)
	}
	return out
}
