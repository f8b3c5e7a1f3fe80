package frontier

// TakeSent returns the links that were sent to closed partitions, and forgets
// them.
func (m *memStore) TakeSent() []Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	sent := m.sent
	m.sent = nil
	return sent
}

// Len is how many links were ever committed, and how many of them are finished.
func (m *memStore) Len() (links, finished int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, visit := range m.finished {
		if visit > 0 {
			finished++
		}
	}
	return len(m.finished), finished
}

// Inflight is how many URLs were leased and neither finished nor returned.
func (m *memStore) Inflight() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.inflight)
}
