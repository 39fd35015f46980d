package azure

import (
	"halley/trigger"
	"halley/trigger/deadletter/internal/contract"
)

var (
	_ trigger.DeadLetters = (*Blob)(nil)
	_ trigger.DeadLetters = (*Queue)(nil)
)

// Short names of the tests of every store.
var (
	sample = contract.Sample
	of     = contract.Of
	must   = contract.Must
	list   = contract.List
	same   = contract.Same
	large  = contract.Large
)

type spoiling = contract.Spoiling
