package app

import "halley/trigger"

// stallCommands are the commands that help with a stall. The runtime does not know them.
var stallCommands = map[trigger.StallKind]string{
	trigger.StallFeedFails:   "the command check tries them",
	trigger.StallLeaseFails:  "the command check tries them",
	trigger.StallUnreadable:  "the command leases import restores an export",
	trigger.StallPaused:      "the command leases resume does it",
	trigger.StallRangeWaits:  "the command check tries what the function needs",
	trigger.StallOwnerSilent: "the command leases list shows the owners",
}

// stallAdvice returns the runtime's advice on a stall with the command that carries it out.
func stallAdvice(s trigger.Stall) string {
	command := stallCommands[s.Kind]
	if s.Kind == trigger.StallHandlerFails && s.Attempts > 0 {
		command = "the command deadletters replay does it"
	}
	if command == "" {
		return s.Advice()
	}
	return s.Advice() + "; " + command
}
