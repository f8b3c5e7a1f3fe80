package dedup

import "github.com/mapwright/mapwright/frontier/weburl"

// Partitions is how many filters there are: one for each partition that a key can have.
const Partitions = 256

// Filters are the filters of some partitions. One filter per partition lets a crawl resume with another number of
// shards. It is not safe for concurrent use.
type Filters struct {
	filters  [Partitions]*Filter // nil while empty
	capacity int                 // of each
	fpRate   float64
}

// Init sets the capacity of all filters together and the rate of false positives. It is called before anything else.
func (fs *Filters) Init(capacity int, fpRate float64) {
	fs.capacity, fs.fpRate = capacity/Partitions, fpRate
}

// Has reports false only if k was never added.
func (fs *Filters) Has(k weburl.Key) bool {
	f := fs.filters[k.Host.Partition()]
	return f != nil && f.Has(k)
}

// Add puts k in. A key should be added once; a second time costs memory.
func (fs *Filters) Add(k weburl.Key) { fs.make(k.Host.Partition()).Add(k) }

func (fs *Filters) make(p uint8) *Filter {
	if fs.filters[p] == nil {
		fs.filters[p] = NewFilter(fs.capacity, fs.fpRate)
	}
	return fs.filters[p]
}

// Replace replaces the filter of a partition; nil is an empty one.
func (fs *Filters) Replace(p uint8, f *Filter) { fs.filters[p] = f }

// Size is how many keys were added, and the memory that they take.
func (fs *Filters) Size() (keys, bytes int) {
	for _, f := range fs.filters {
		if f != nil {
			keys += f.Len()
			bytes += f.Bytes()
		}
	}
	return keys, bytes
}

// layers is how many layers the filter of a partition has.
func (fs *Filters) layers(p uint8) int {
	if f := fs.filters[p]; f != nil {
		return f.Layers()
	}
	return 0
}

// snapshot returns the layers of a partition's filter from the given one on.
func (fs *Filters) snapshot(p uint8, tag uint64, from int) []Layer {
	if f := fs.filters[p]; f != nil {
		return f.Snapshot(tag, from)
	}
	return nil
}
