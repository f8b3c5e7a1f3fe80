package traps

import (
	"github.com/mapwright/mapwright/frontier/dedup"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// texts is the set of the texts of pages, each with its host. It holds the last maxTexts to
// 2·maxTexts of them: when the newer filter is full, it takes the place of the older one. One in a
// hundred new texts is taken for a known one, which every rule allows for: one page proves nothing.
type texts struct {
	newer, older *dedup.Filter
}

const (
	maxTexts  = 1 << 21
	textError = 0.01
)

func newTexts() texts { return texts{newTextFilter(), newTextFilter()} }

func newTextFilter() *dedup.Filter { return dedup.NewFilter(maxTexts, textError) }

// keyOfText makes a key of a hash.
func keyOfText(h uint64) weburl.Key { return weburl.Key{Hi: h, Lo: h*0xd6e8feb86659fd93 ^ h>>29} }

// add adds a text, and reports whether it is new.
func (t *texts) add(h uint64) bool {
	k := keyOfText(h)
	if t.newer.Has(k) || t.older.Has(k) {
		return false
	}
	if t.newer.Len() >= maxTexts {
		t.older, t.newer = t.newer, newTextFilter()
	}
	t.newer.Add(k)
	return true
}
