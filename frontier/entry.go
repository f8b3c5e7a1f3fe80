package frontier

import (
	"encoding/binary"
	"strconv"
	"unsafe"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// An entry is a queued URL: what a lease needs of it and no more. Host and
// priority are known from where it is queued; the key is computed again.
type entry struct {
	path         []byte // path and query; may lie in the arena
	origin       origin
	depth        uint16
	source, hops uint8
	visit        laterVisit
	index        uint32
	position     Position
}

// append adds e in its encoded form; base is a position that is not greater
// than e's.
func (e *entry) append(dst []byte, base Position) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(e.path)))
	flags := byte(e.origin)
	if e.visit.number > 1 {
		flags |= entryVisit
	}
	dst = append(dst, flags, e.source, e.hops)
	if e.origin&originPort != 0 {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(e.origin>>16))
	}
	dst = binary.AppendUvarint(dst, uint64(e.depth))
	dst = binary.AppendUvarint(dst, uint64(e.position-base))
	dst = binary.AppendUvarint(dst, uint64(e.index))
	if flags&entryVisit != 0 {
		dst = e.visit.append(dst)
	}
	return append(dst, e.path...)
}

// read decodes the entry at the start of src and returns its length. The path
// aliases src.
func (e *entry) read(src []byte, base Position) int {
	at := 0
	number := func() uint64 {
		v, n := binary.Uvarint(src[at:])
		at += n
		return v
	}
	size := int(number())
	flags := src[at]
	e.origin, e.source, e.hops = origin(flags&^entryVisit), src[at+1], src[at+2]
	at += 3
	if e.origin&originPort != 0 {
		e.origin |= origin(binary.LittleEndian.Uint16(src[at:])) << 16
		at += 2
	}
	e.depth = uint16(number())
	e.position = base + Position(number())
	e.index = uint32(number())
	e.visit = laterVisit{}
	if flags&entryVisit != 0 {
		at += e.visit.read(src[at:])
	}
	e.path = src[at : at+size]
	return at + size
}

// entryVisit is set in the first byte of an entry that is not a first visit.
const entryVisit = 1 << 7

// A laterVisit is what is queued of visits after the first: the number, and how the one
// before ended. The zero value is the first visit.
type laterVisit struct {
	number uint32
	before Summary
}

func (v *laterVisit) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(v.number))
	counted := byte(0)
	if v.before.Counted {
		counted = 1
	}
	dst = append(dst, v.before.Outcome, counted)
	dst = binary.AppendUvarint(dst, uint64(v.before.Status))
	return binary.AppendUvarint(dst, v.before.Bytes)
}

// read decodes a visit at the start of src and returns its length.
func (v *laterVisit) read(src []byte) int {
	number, at := binary.Uvarint(src)
	v.number = uint32(number)
	v.before.Outcome, v.before.Counted = src[at], src[at+1] != 0
	at += 2
	status, n := binary.Uvarint(src[at:])
	v.before.Status = uint16(status)
	at += n
	v.before.Bytes, n = binary.Uvarint(src[at:])
	return at + n
}

// visitOf is what is queued of a link's visit.
func visitOf(l *Link) laterVisit {
	if l.Visit <= 1 {
		return laterVisit{}
	}
	return laterVisit{l.Visit, l.Before}
}

// An origin is what of "scheme://host:port" is not the host's name: the scheme,
// the port if it is not the scheme's own, and whether a dot ends the name.
type origin uint32

const (
	originHTTPS origin = 1 << iota
	originDot
	originPort // the upper 16 bits are the port
)

// originOf returns the origin of u, and the name that its host goes by.
func originOf(u urlnorm.URL) (o origin, name string) {
	if len(u.Scheme()) == len("https") {
		o |= originHTTPS
	}
	name = u.Host()
	if n := len(name) - 1; n > 0 && name[n] == '.' {
		o |= originDot
		name = name[:n]
	}
	if port := u.Port(); port != "" {
		n, _ := strconv.ParseUint(port, 10, 16)
		o |= originPort | origin(n)<<16
	}
	return o, name
}

// appendOrigin writes an origin of the named host.
func appendOrigin(dst []byte, o origin, name []byte) []byte {
	if o&originHTTPS != 0 {
		dst = append(dst, "https://"...)
	} else {
		dst = append(dst, "http://"...)
	}
	dst = append(dst, name...)
	if o&originDot != 0 {
		dst = append(dst, '.')
	}
	if o&originPort != 0 {
		dst = append(dst, ':')
		dst = strconv.AppendUint(dst, uint64(o>>16), 10)
	}
	return dst
}

// textOf is s as bytes that must not be written to, without a copy.
func textOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// stringOf is b as a string without a copy; b must not be written to any more.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
