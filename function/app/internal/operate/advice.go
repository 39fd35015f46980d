package operate

import "halley/trigger/stall"

// stallCommands are the commands that help with a stall. The runtime does not know them.
var stallCommands = map[stall.Kind]string{
	stall.FeedFails:       "the command check tries them",
	stall.RetentionMissed: "the command leases seek does it, with --to snapshot or --to now",
	stall.LeaseFails:      "the command check tries them",
	stall.Unreadable:      "the command leases import restores an export",
	stall.Paused:          "the command leases resume does it",
	stall.RangeWaits:      "the command check tries what the function needs",
	stall.OwnerSilent:     "the command leases list shows the owners",
}

// Advice returns the runtime's advice on a stall with the command that carries it out.
func Advice(s stall.Stall) string {
	command := stallCommands[s.Kind]
	if s.Kind == stall.HandlerFails && s.Attempts > 0 {
		command = "the command deadletters replay does it"
	}
	if command == "" {
		return s.Advice()
	}
	return s.Advice() + "; " + command
}
