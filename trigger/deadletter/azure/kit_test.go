package azure

import (
	"halley/trigger"
	"halley/trigger/deadletter/internal/sample"
	"halley/trigger/triggertest"
)

var (
	_ trigger.DeadLetters = (*Blob)(nil)
	_ trigger.DeadLetters = (*Queue)(nil)
)

// Short names of the helpers of the tests of every store.
var (
	letter = sample.Letter
	of     = sample.Of
	dead   = sample.Dead
	must   = sample.Must
	list   = sample.List
	same   = sample.Same
)

type spoiling = triggertest.DeadLetterDamage
