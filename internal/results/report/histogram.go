package report

// ResponseTimes are quantiles, exact to the millisecond, and a histogram.
type ResponseTimes struct {
	Count   int64    `json:"count"`
	P50     int64    `json:"p50_ms"`
	P95     int64    `json:"p95_ms"`
	Max     int64    `json:"max_ms"`
	Buckets []Bucket `json:"buckets"`
}

// Bucket counts the URLs whose response time is at most UpTo and above that of the bucket before. The last has no
// bound.
type Bucket struct {
	UpTo int64 `json:"up_to_ms,omitempty"`
	URLs int64 `json:"urls"`
}

// histogram counts durations by the millisecond. Durations above longest count as longest.
type histogram struct {
	counts       []uint32 // by milliseconds
	total        int64
	lowest, most int // range of counts that is not zero
	max          int64
}

// longest is the last place of a histogram, in milliseconds: about 17 minutes.
const longest = 1<<20 - 1

func (h *histogram) add(ms int64) {
	h.max = max(h.max, ms)
	at := int(min(max(ms, 0), longest))
	if at >= len(h.counts) {
		grown := make([]uint32, max(at+1, 2*len(h.counts), 1024))
		copy(grown, h.counts)
		h.counts = grown
	}
	if h.total == 0 || at < h.lowest {
		h.lowest = at
	}
	h.most = max(h.most, at)
	h.counts[at]++
	h.total++
}

// quantile is a percentile by the nearest rank: the smallest duration that at least so many percent do not exceed.
func (h *histogram) quantile(percent int64) int64 {
	rank := (h.total*percent + 99) / 100
	for at := h.lowest; at <= h.most; at++ {
		if rank -= int64(h.counts[at]); rank <= 0 {
			return int64(at)
		}
	}
	return int64(h.most)
}

// clear empties the histogram. It touches only what was counted.
func (h *histogram) clear() {
	if h.total > 0 {
		clear(h.counts[h.lowest : h.most+1])
	}
	h.total, h.lowest, h.most, h.max = 0, 0, 0, 0
}

// bounds are the upper bounds of the buckets, in milliseconds.
func bounds() []int64 { return []int64{50, 100, 200, 500, 1000, 2000, 5000, 10_000} }

func (h *histogram) figures() *ResponseTimes {
	if h.total == 0 {
		return nil
	}
	r := &ResponseTimes{Count: h.total, P50: h.quantile(50), P95: h.quantile(95), Max: h.max}
	at := 0
	for _, bound := range bounds() {
		b := Bucket{UpTo: bound}
		for ; at <= h.most && int64(at) <= bound; at++ {
			b.URLs += int64(h.counts[at])
		}
		r.Buckets = append(r.Buckets, b)
	}
	last := Bucket{}
	for ; at <= h.most; at++ {
		last.URLs += int64(h.counts[at])
	}
	r.Buckets = append(r.Buckets, last)
	return r
}
