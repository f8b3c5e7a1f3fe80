package weburl

// resolveAsStandard resolves raw against base as the URL Standard does and serialises it
// before any canonical form: user information and fragment are still there. An
// empty base, or one of another scheme, is no base. It is what the conformance
// data is held against.
func resolveAsStandard(base, raw string) (href string, err error) {
	var b, r record
	if base != "" {
		if err := b.parse(new(record), base); err != nil && err != ErrScheme {
			return "", err
		}
	}
	if err := r.parse(&b, raw); err != nil {
		return "", err
	}
	return r.href(), nil
}

// href serialises r as the standard does.
func (r *record) href() string {
	b := append([]byte(r.scheme), "://"...)
	if r.user != "" || r.pass != "" {
		b = append(b, r.user...)
		if r.pass != "" {
			b = append(b, ':')
			b = append(b, r.pass...)
		}
		b = append(b, '@')
	}
	b = append(b, r.host...)
	if r.port != "" {
		b = append(b, ':')
		b = append(b, r.port...)
	}
	b = append(b, r.path...)
	if r.hasQuery {
		b = append(b, '?')
		b = append(b, r.query...)
	}
	if r.hasFragment {
		b = append(b, '#')
		b = append(b, r.fragment...)
	}
	return string(b)
}
