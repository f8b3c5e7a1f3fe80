package service

import (
	"slices"
)

// State is where a crawl is. Only the engine writes it.
type State string

// The states.
const (
	Queued    State = "queued"
	Running   State = "running"
	Pausing   State = "pausing"
	Paused    State = "paused"
	Finishing State = "finishing" // outputs are being written
	Complete  State = "complete"
	Partial   State = "partial"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Deleting  State = "deleting"
)

// States are all states.
func States() []State {
	return []State{Queued, Running, Pausing, Paused, Finishing, Complete, Partial, Failed, Cancelled, Deleting}
}

// Ended says whether a generation of the crawl is over.
func (s State) Ended() bool { return slices.Contains([]State{Complete, Partial, Failed, Cancelled}, s) }

// Desired is what the last command wants a crawl to be. The engine moves the state towards it.
type Desired string

// What commands want.
const (
	DesiredRun    Desired = "run" // run to its end
	DesiredPause  Desired = "pause"
	DesiredCancel Desired = "cancel"
	DesiredDelete Desired = "delete"
)

// Command is what a user may ask of a crawl.
type Command string

// The commands.
const (
	CommandPause   Command = "pause"
	CommandResume  Command = "resume"
	CommandCancel  Command = "cancel"
	CommandRecrawl Command = "recrawl"
	CommandDelete  Command = "delete"
)

// Commands are all commands.
func Commands() []Command {
	return []Command{CommandPause, CommandResume, CommandCancel, CommandRecrawl, CommandDelete}
}
