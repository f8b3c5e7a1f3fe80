package main

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

// rpmProcessors are the names of processors in packages.
var rpmProcessors = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// Types of values in a header.
const (
	rpmInt16    = 3
	rpmInt32    = 4
	rpmString   = 6
	rpmBinary   = 7
	rpmStrings  = 8
	rpmI18N     = 9
	rpmSigTag   = 62 // the region of a signature
	rpmMainTag  = 63 // the region of the header
	rpmLeadSize = 96
)

type rpmEntry struct {
	tag, kind, count int
	data             []byte
}

// rpmHeader is a list of values by tag.
type rpmHeader struct{ entries []rpmEntry }

func (h *rpmHeader) add(tag, kind, count int, data []byte) {
	h.entries = append(h.entries, rpmEntry{tag, kind, count, data})
}

func (h *rpmHeader) text(tag int, s string)    { h.add(tag, rpmString, 1, append([]byte(s), 0)) }
func (h *rpmHeader) i18n(tag int, s string)    { h.add(tag, rpmI18N, 1, append([]byte(s), 0)) }
func (h *rpmHeader) binary(tag int, b []byte)  { h.add(tag, rpmBinary, len(b), b) }
func (h *rpmHeader) int32s(tag int, n ...int)  { h.numbers(tag, rpmInt32, 4, n) }
func (h *rpmHeader) int16s(tag int, n ...int)  { h.numbers(tag, rpmInt16, 2, n) }
func (h *rpmHeader) texts(tag int, s []string) { h.add(tag, rpmStrings, len(s), joinZero(s)) }

func (h *rpmHeader) numbers(tag, kind, size int, numbers []int) {
	var data []byte
	for _, n := range numbers {
		word := binary.BigEndian.AppendUint32(nil, uint32(n))
		data = append(data, word[4-size:]...)
	}
	h.add(tag, kind, len(numbers), data)
}

func joinZero(texts []string) []byte {
	var data []byte
	for _, s := range texts {
		data = append(append(data, s...), 0)
	}
	return data
}

// bytes is the stored form: an index of 16 bytes for each value, and the values. The region, whose tag is given, covers
// all of it: its entry is the first, and its value, at the end, leads back to the beginning of the index.
func (h *rpmHeader) bytes(region int) []byte {
	slices.SortFunc(h.entries, func(a, b rpmEntry) int { return cmp.Compare(a.tag, b.tag) })
	n := len(h.entries) + 1
	var index, store []byte
	entry := func(to []byte, tag, kind, offset, count int) []byte {
		for _, v := range []int{tag, kind, offset, count} {
			to = binary.BigEndian.AppendUint32(to, uint32(v))
		}
		return to
	}
	for _, e := range h.entries {
		align := map[int]int{rpmInt16: 2, rpmInt32: 4}[e.kind]
		for align > 0 && len(store)%align > 0 {
			store = append(store, 0)
		}
		index = entry(index, e.tag, e.kind, len(store), e.count)
		store = append(store, e.data...)
	}
	index = append(entry(nil, region, rpmBinary, len(store), 16), index...)
	store = entry(store, region, rpmBinary, -16*n, 16)
	out := []byte{0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0}
	out = binary.BigEndian.AppendUint32(out, uint32(n))
	out = binary.BigEndian.AppendUint32(out, uint32(len(store)))
	return append(append(out, index...), store...)
}

// rpmPackage makes a package for RPM: a lead, which only names the format today, a header of digests, a header about
// the package and its files, and a cpio archive of the files.
func rpmPackage(p *pack) ([]byte, error) {
	files := slices.SortedFunc(slices.Values(p.files), func(a, b file) int { return strings.Compare(a.name, b.name) })
	archive := cpioOf(files, int(p.time.Unix()))
	payload, err := gzipOf(archive)
	if err != nil {
		return nil, err
	}
	header := rpmAbout(p, files, payload).bytes(rpmMainTag)
	body := append(bytes.Clone(header), payload...)
	digest := md5.Sum(body)
	var signature rpmHeader
	signature.text(273, hexSum(header))
	signature.int32s(1000, len(body))
	signature.binary(1004, digest[:])
	signature.int32s(1007, len(archive))

	lead := make([]byte, rpmLeadSize)
	copy(lead, []byte{0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1}) // format 3.0, a binary package, any processor
	copy(lead[10:75], "mapwright-"+p.version+"-1")
	lead[77], lead[79] = 1, 5 // Linux, and a signature that is a header
	out := append(lead, signature.bytes(rpmSigTag)...)
	for len(out)%8 > 0 {
		out = append(out, 0)
	}
	return append(out, body...), nil
}

func rpmAbout(p *pack, files []file, payload []byte) *rpmHeader {
	h := &rpmHeader{}
	h.texts(100, []string{"C"})
	h.text(1000, "mapwright")
	h.text(1001, p.version)
	h.text(1002, "1")
	h.i18n(1004, summary)
	h.i18n(1005, description)
	h.int32s(1006, int(p.time.Unix()))
	h.text(1007, "localhost") // the machine is not part of a reproducible package
	h.text(1014, "Apache-2.0")
	h.i18n(1016, "Applications/Internet")
	h.text(1020, homepage)
	h.text(1021, "linux")
	h.text(1022, rpmProcessors[p.processor])
	h.text(1044, "mapwright-"+p.version+"-1.src.rpm")

	// 16777226 is "at most, and a property of rpm itself"; 8 is "equal".
	h.int32s(1048, 16777226, 16777226, 16777226)
	h.texts(1049, []string{"rpmlib(CompressedFileNames)", "rpmlib(FileDigests)", "rpmlib(PayloadFilesHavePrefix)"})
	h.texts(1050, []string{"3.0.4-1", "4.6.0-1", "4.0-1"})
	h.texts(1047, []string{"mapwright"})
	h.int32s(1112, 8)
	h.texts(1113, []string{p.version + "-1"})
	h.text(1064, "4.18.0")
	h.text(1124, "cpio")
	h.text(1125, "gzip")
	h.text(1126, "9")
	h.int32s(5011, 8) // SHA-256
	h.text(5062, "utf-8")
	h.texts(5092, []string{hexSum(payload)})
	h.int32s(5093, 8)

	var size int
	var sizes, modes, zeros, times, inodes, ones, verify, dirOf []int
	var digests, empty, root, bases, dirs []string
	for i, f := range files {
		dir := "/" + path.Dir(f.name) + "/"
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		size += len(f.data)
		sizes, modes = append(sizes, len(f.data)), append(modes, systemMode(f))
		times, inodes = append(times, int(p.time.Unix())), append(inodes, i+1)
		zeros, ones, verify = append(zeros, 0), append(ones, 1), append(verify, -1)
		dirOf, bases = append(dirOf, slices.Index(dirs, dir)), append(bases, path.Base(f.name))
		digest := hexSum(f.data)
		if f.mode.IsDir() {
			digest = ""
		}
		digests, empty, root = append(digests, digest), append(empty, ""), append(root, "root")
	}
	h.int32s(1009, size)
	h.int32s(1028, sizes...)
	h.int16s(1030, modes...)
	h.int16s(1033, zeros...)
	h.int32s(1034, times...)
	h.texts(1035, digests)
	h.texts(1036, empty)
	h.int32s(1037, zeros...)
	h.texts(1039, root)
	h.texts(1040, root)
	h.int32s(1045, verify...)
	h.int32s(1095, ones...)
	h.int32s(1096, inodes...)
	h.texts(1097, empty)
	h.int32s(1116, dirOf...)
	h.texts(1117, bases)
	h.texts(1118, dirs)
	return h
}

// cpioOf makes an archive of the format "newc".
func cpioOf(files []file, seconds int) []byte {
	var b bytes.Buffer
	pad := func() {
		for b.Len()%4 > 0 {
			b.WriteByte(0)
		}
	}
	entry := func(inode, mode, seconds int, name string, data []byte) {
		b.WriteString("070701")
		for _, n := range []int{inode, mode, 0, 0, 1, seconds, len(data), 0, 0, 0, 0, len(name) + 1, 0} {
			fmt.Fprintf(&b, "%08x", n)
		}
		b.WriteString(name + "\x00")
		pad()
		b.Write(data)
		pad()
	}
	for i, f := range files {
		entry(i+1, systemMode(f), seconds, "./"+f.name, f.data)
	}
	entry(0, 0, 0, "TRAILER!!!", nil)
	return b.Bytes()
}

// systemMode is the mode of a file as Unix systems have it.
func systemMode(f file) int {
	if f.mode.IsDir() {
		return 0o040000 | int(f.mode.Perm())
	}
	return 0o100000 | int(f.mode.Perm())
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
