package frontier

// Why is what a host waits for.
type Why uint8

const (
	WhyNothing    Why = iota // it does not wait: it may be leased now
	WhyIdle                  // it has nothing queued
	WhyDelay                 // the delay between two requests
	WhyRest                  // a rest after a refusal
	WhyBackoff               // a backoff after failures
	WhyRetry                 // the time of its only URL's next attempt
	WhyFull                  // as many requests are out as it may have
	WhyStarting              // a request that was leased is not on the wire yet
	WhyRobots                // its robots.txt is being asked for
	WhyRobotsSlot            // too many robots.txt are being asked for at once
	WhyLoading               // its URLs or its facts are being read from the store
	WhyTicket                // all page tickets are taken
	WhyHostLimit             // it has had all its pages
	WhyLevel                 // its level is not open yet
	WhyBlocked               // it failed too often in a row
	WhyAbandoned             // its domain had too many failed URLs in a row
	WhyParked                // too many hosts are active
	WhyClosing               // its partition is being opened or closed
	whyCount
)

func (w Why) String() string {
	return [whyCount]string{
		"ready", "idle", "delay", "rest", "backoff", "retry", "in flight", "starting", "robots.txt",
		"robots.txt slot", "loading", "page limit", "host page limit", "level", "blocked", "abandoned", "parked", "partition",
	}[w]
}
