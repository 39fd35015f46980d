package deadletter

import (
	"halley/trigger"
	"halley/trigger/deadletter/internal/sample"
	"halley/trigger/triggertest"
)

var (
	_ trigger.DeadLetters = (*Container)(nil)
	_ trigger.DeadLetters = (*Directory)(nil)
)

// Short names of the helpers of the tests of every store.
var (
	letter = sample.Letter
	of     = sample.Of
	dead   = sample.Dead
	must   = sample.Must
	list   = sample.List
	listOf = sample.ListOf
	ids    = sample.IDs
	same   = sample.Same
	monday = sample.Monday
)

type spoiling = triggertest.DeadLetterDamage
