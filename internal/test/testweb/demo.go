package testweb

// DemoConfig is a small site that has a little of everything a crawl of a real one
// meets, and nothing that takes long: some forty URLs on the loopback address itself, so
// that a client needs to be told nothing but the start URL.
func DemoConfig() Config {
	return Config{
		Seed:         2026,
		HostName:     "127.0.0.1",
		Pages:        24,
		PageSize:     4 << 10,
		Links:        8,
		ExplicitPort: true,
		Sitemaps:     &Sitemaps{Orphans: 2},
		Faults: OnAll(
			StatusPages{Where: Where{Count: 2}},
			StatusPages{Status: 410},
			RedirectChain{Length: 2},
			NoIndex{Count: 2},
			Canonical{},
			NoFollow{},
			Hreflang{},
			Disallow{Count: 2},
		),
	}
}
