package parser

import (
	"bytes"
	"strconv"
)

// largestSource returns the address in a srcset attribute with the largest width
// or density.
func largestSource(srcset []byte) []byte {
	var best []byte
	size := -1.0
	eachSource(srcset, func(url, descriptor []byte) {
		if s := descriptorSize(descriptor); s > size {
			best, size = url, s
		}
	})
	return best
}

// eachSource calls fn with the address and the descriptors of each source in a srcset attribute.
func eachSource(srcset []byte, fn func(url, descriptor []byte)) {
	for {
		for len(srcset) > 0 && (isSpace(srcset[0]) || srcset[0] == ',') {
			srcset = srcset[1:]
		}
		url, rest := cutToken(srcset)
		if len(url) == 0 {
			return
		}
		descriptor := []byte(nil)
		if trimmed := bytes.TrimRight(url, ","); len(trimmed) < len(url) {
			url, srcset = trimmed, rest
		} else {
			descriptor, srcset = cutDescriptor(rest)
		}
		fn(url, descriptor)
	}
}

// cutDescriptor splits the descriptors of one source off at a comma outside of
// parentheses.
func cutDescriptor(b []byte) (descriptor, rest []byte) {
	depth := 0
	for i, c := range b {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			return trimSpace(b[:i]), b[i+1:]
		}
	}
	return trimSpace(b), nil
}

// descriptorSize is the number of a descriptor such as 2x or 640w. None means 1x.
func descriptorSize(d []byte) float64 {
	if len(d) < 2 || len(d) > 32 {
		return 1
	}
	size, err := strconv.ParseFloat(string(d[:len(d)-1]), 64)
	if err != nil {
		return 0
	}
	return size
}
