// Package traps recognises URLs of which a site can make endlessly many, mostly by what their pages say.
// docs/traps.md describes the rules to users, DESIGN.md gives the reasons.
package traps
