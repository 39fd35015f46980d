package delivery

// KeyState is the state of a change's key when a lane decides whether the change may be
// delivered. The zero value is a free key.
type KeyState struct {
	Waits   bool  // a change of the key waits in memory, or is in a call
	Place   Place // of the change among the postponed changes of its key
	DueSoon bool  // the postponed changes are all before the change, and the first is due within memoryWait
	Block   Block // whether the change stands behind a dead letter of its key
}

// Place is where a change from the feed belongs among the postponed changes of its key.
type Place int

// The places.
const (
	PlaceFree   Place = iota // before them, or the key has none
	PlaceListed              // it is one of them
	PlaceInside              // between them
	PlaceBehind              // behind them
)

// Block says whether a change stands behind a dead letter of its key that blocks it.
type Block int

// The blocks.
const (
	BlockNone     Block = iota
	BlockPossible       // a store that has no dead letter of the key any more frees it
	BlockCertain        // the dead letter was put a moment ago
)

// Admission is the answer to the question whether a change may be delivered.
type Admission int

// The admissions.
const (
	AdmitDeliver  Admission = iota // it is delivered
	AdmitFinish                    // it is in the store already: it is finished
	AdmitQueue                     // it waits in memory behind the changes of its key
	AdmitPostpone                  // it is put into the store behind the postponed changes of its key
	AdmitAsk                       // the store is asked whether the key is still blocked
	AdmitBlock                     // it is put into the store behind the dead letters of its key
)

// Admit says whether a change may be delivered, or where it waits behind others of its key.
func Admit(k KeyState) Admission {
	switch {
	case k.Place == PlaceListed:
		return AdmitFinish
	case k.Waits, k.Place != PlaceFree && k.DueSoon:
		return AdmitQueue
	case k.Place != PlaceFree:
		return AdmitPostpone
	case k.Block == BlockPossible:
		return AdmitAsk
	case k.Block == BlockCertain:
		return AdmitBlock
	}
	return AdmitDeliver
}
