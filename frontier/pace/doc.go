// Package pace decides when a host may be asked again and how many requests it may have in flight.
//
// A [Pace] is the state of one host: learned delay, rest after a refusal, backoff after failures, and the adaptive
// number in flight. It is a value without pointers or clock, and its methods are pure, so that the rules can be tested
// by themselves. [Pace.Apply] takes the end of a request as an [Event] and returns the new pace and what changed;
// [Pace.NextStart] and [Pace.Limit] answer for the next request; [Pace.Learned] and [Pace.Restore] carry what outlives
// a crawl. A [Config] holds what a crawl's profile says about all hosts.
//
// The frontier keeps one Pace per host under the lock of the host's shard. If several crawls of a process may ask the
// same host, a [Registry] holds what they share about it. [Addresses] holds how many requests go to one network
// address, over all hosts that have it.
package pace
