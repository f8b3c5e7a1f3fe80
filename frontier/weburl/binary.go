package weburl

import "fmt"

// MarshalBinary implements encoding.BinaryMarshaler: the stored form of a URL is its text.
func (u URL) MarshalBinary() ([]byte, error) { return []byte(u.text), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (u *URL) UnmarshalBinary(b []byte) error {
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

// MarshalText implements encoding.TextMarshaler.
func (u URL) MarshalText() ([]byte, error) { return u.MarshalBinary() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *URL) UnmarshalText(b []byte) error { return u.UnmarshalBinary(b) }
