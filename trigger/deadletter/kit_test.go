package deadletter

import (
	"halley/trigger"
	"halley/trigger/deadletter/internal/contract"
)

var (
	_ trigger.DeadLetters = (*Container)(nil)
	_ trigger.DeadLetters = (*Directory)(nil)
)

// Short names of the tests of every store.
var (
	sample = contract.Sample
	of     = contract.Of
	must   = contract.Must
	list   = contract.List
	listOf = contract.ListOf
	ids    = contract.IDs
	same   = contract.Same
	monday = contract.Monday
)

type spoiling = contract.Spoiling
