package frontier_test

import (
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/test/storetest"
)

func TestMemStoreIsAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) frontier.Store { return frontier.NewMemStore() })
}
