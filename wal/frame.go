package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// LSN is the number of a record. The first record of a log has LSN 1, and
// there are no gaps.
type LSN uint64

// MaxRecordSize is the largest record that can be written, and the largest
// length that a reader accepts.
const MaxRecordSize = 64 << 20

const (
	pageSize = 4096

	frameHeader   = 5 // type, length
	frameTrailer  = 4 // checksum
	frameOverhead = frameHeader + frameTrailer

	typeRecord  = 1
	typeBarrier = 2

	lsnSpread = 0x9E3779B1 // odd, so that no two LSNs within 2³² share a seed

	barrierPayload = 24 // segment id, offset, LSN
	barrierSize    = frameOverhead + barrierPayload
)

// checksum is CRC-32C. MakeTable returns the same table each time.
func checksum(seed uint32, b []byte) uint32 {
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), b)
}

func alignUp(n int64) int64 { return (n + pageSize - 1) &^ (pageSize - 1) }

// recordSeed makes the checksum of a record depend on its segment and on its LSN, so that bytes left over from
// elsewhere never pass for it. The same difference in the first four bytes of a frame cancels a difference in the seed.
// The multiplication spreads the difference of two LSNs over all four bytes.
func (h *header) recordSeed(lsn LSN) uint32 { return h.seed ^ uint32(lsn)*lsnSpread }

// appendFrame appends one frame to dst.
func appendFrame(dst []byte, typ byte, seed uint32, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, typ)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = append(dst, payload...)
	return binary.LittleEndian.AppendUint32(dst, checksum(seed, dst[start:]))
}

// appendBarrier appends the frame that opens a batch at off. It says: all that
// lies before off was durable before this byte was written, and the next
// record is lsn.
func (h *header) appendBarrier(dst []byte, off int64, lsn LSN) []byte {
	payload := append(make([]byte, 0, barrierPayload), h.id[:]...)
	payload = binary.LittleEndian.AppendUint64(payload, uint64(off))
	payload = binary.LittleEndian.AppendUint64(payload, uint64(lsn))
	return appendFrame(dst, typeBarrier, h.seed, payload)
}

// barrierAt reports whether b begins with a barrier of this segment that was
// written at off, and the LSN it carries.
func (h *header) barrierAt(b []byte, off int64) (LSN, bool) {
	if len(b) < barrierSize || off%pageSize != 0 || b[0] != typeBarrier ||
		binary.LittleEndian.Uint32(b[1:]) != barrierPayload {
		return 0, false
	}
	body, sum := b[:barrierSize-frameTrailer], b[barrierSize-frameTrailer:barrierSize]
	if checksum(h.seed, body) != binary.LittleEndian.Uint32(sum) {
		return 0, false
	}
	p := body[frameHeader:]
	if [8]byte(p) != h.id || binary.LittleEndian.Uint64(p[8:]) != uint64(off) {
		return 0, false
	}
	return LSN(binary.LittleEndian.Uint64(p[16:])), true
}
