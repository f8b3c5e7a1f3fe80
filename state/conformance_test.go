package state

import (
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/test/storetest"
)

func TestStoreIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) frontier.Store {
		o := small()
		o.Seed = storetest.Seed
		return open(t, t.TempDir(), o)
	})
}
