package recrawl

import (
	"github.com/mapwright/mapwright/frontier/weburl"
)

// verifyFirst is how many answers 304 of each host are verified, beside the sample.
const verifyFirst = 10

// maxVerified bounds the hosts whose verified answers are counted. When there are more, counting begins again.
const maxVerified = 1 << 16

// trusts reports whether answers 304 of a host are believed.
func (v *Visits) trusts(host string) bool {
	v.trust.RLock()
	defer v.trust.RUnlock()
	return !v.distrusted[host]
}

// RecordNotModified calls record, which records an answer 304, if such answers of the host are believed. Otherwise it
// returns false, and the page must be asked for again.
func (v *Visits) RecordNotModified(host string, record func() error) (bool, error) {
	v.trust.RLock()
	defer v.trust.RUnlock()
	if v.distrusted[host] {
		return false, nil
	}
	return true, record()
}

// Distrust notes that an answer 304 of a host was false, and reports whether that is new. When it returns, all such
// answers of the host that were believed are committed.
func (v *Visits) Distrust(host string) bool {
	v.trust.Lock()
	defer v.trust.Unlock()
	if v.distrusted[host] {
		return false
	}
	v.distrusted[host] = true
	return true
}

// MustVerify reports whether an answer 304 is to be verified by another visit: that is so for a sample, and for the
// first ones of each host.
func (v *Visits) MustVerify(k weburl.Key) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.verified[k.Host]
	if n >= verifyFirst {
		return isSampled(k, v.generation)
	}
	if len(v.verified) == maxVerified {
		clear(v.verified)
	}
	v.verified[k.Host] = n + 1
	return true
}
