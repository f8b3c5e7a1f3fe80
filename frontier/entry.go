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
	index        uint32
	position     Position
}

// append adds e in its encoded form; base is a position that is not greater
// than e's.
func (e *entry) append(dst []byte, base Position) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(e.path)))
	dst = append(dst, byte(e.origin), e.source, e.hops)
	if e.origin&originPort != 0 {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(e.origin>>16))
	}
	dst = binary.AppendUvarint(dst, uint64(e.depth))
	dst = binary.AppendUvarint(dst, uint64(e.position-base))
	dst = binary.AppendUvarint(dst, uint64(e.index))
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
	e.origin, e.source, e.hops = origin(src[at]), src[at+1], src[at+2]
	at += 3
	if e.origin&originPort != 0 {
		e.origin |= origin(binary.LittleEndian.Uint16(src[at:])) << 16
		at += 2
	}
	e.depth = uint16(number())
	e.position = base + Position(number())
	e.index = uint32(number())
	e.path = src[at : at+size]
	return at + size
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
