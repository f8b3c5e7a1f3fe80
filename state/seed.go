package state

// Seed is the hash seed of the crawl: what Hasher hashes under, for packages that make a hasher of their own.
func (s *Store) Seed() uint64 { return s.format.seed }
