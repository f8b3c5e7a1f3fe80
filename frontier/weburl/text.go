package weburl

import "fmt"

// MarshalText implements encoding.TextMarshaler.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.text), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *URL) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*u = URL{}
		return nil
	}
	v, ok := FromCanonical(string(b))
	if !ok {
		return fmt.Errorf("not a canonical url: %.200q", b)
	}
	*u = v
	return nil
}
