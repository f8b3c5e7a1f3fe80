package state

import (
	"github.com/mapwright/mapwright/frontier"
)

// A Page is what is known of one URL.
type Page struct {
	// Link is how the URL was found. Of a key that was finished without ever
	// being named, only Link.Key is set.
	Link frontier.Link
	// Finish is nil while the URL is pending.
	Finish *frontier.Finish
}
