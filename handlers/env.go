package handlers

import (
	"context"

	"go.uber.org/zap"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// Env is passed to a handler when the application opens it.
type Env struct {
	// Logger is named after the handler. If it is nil, nothing is logged.
	Logger *zap.Logger

	// Container returns a client for a container of the monitored account. The
	// container must exist when the handler first uses it; Container itself does
	// no I/O. The function is not nil.
	Container func(database, container string) *cosmos.Container

	// Account returns a client of another account, by the name of its connection: it is
	// resolved as HALLEY_CONNECTION is. Account does no I/O, and only Open may call it.
	// It is nil if the handler is opened outside of an app.
	Account func(connection string) (*cosmos.Client, error)

	// Database is the monitored container's. A handler uses it for its own
	// containers if its settings name no other database.
	Database string

	// ContainerName is the name of the monitored container, for handlers that tell
	// others the origin of a change.
	ContainerName string

	// FromSnapshot says that the function starts from a snapshot: its changes have a
	// [trigger.Change.Generation], and a handler that can remove rows that a snapshot has not shown
	// offers SnapshotRead with [Env.FollowRanges].
	FromSnapshot bool

	// Probe, if it is not nil, takes what the command check tries for the handler: see
	// [Env.OfferProbe].
	Probe func(Probe)

	// Follow, if it is not nil, takes the handler's callbacks about ranges: see
	// [Env.FollowRanges].
	Follow func(RangeCallbacks)

	// Measure, if it is not nil, is told of each use of a sink by the handler, see [Env.Meter].
	Measure func(SinkUse)

	// Borrow, if it is not nil, is called by a handler that borrows its batches: see
	// [Env.BorrowBatches].
	Borrow func()

	// Prefix begins the names of the handler's settings, such as
	// HALLEY_LEADERBOARD_. Error messages need it when they name a setting; the
	// settings themselves are already read.
	Prefix string
}

// Inspect gives a command of a handler access to one function of its app, by the
// function's name. It reads the settings, makes no host, and opens no handler. The
// Inspect of an app is the method of its Options; errors name the setting to change.
type Inspect func(ctx context.Context, function string) (Inspection, error)

// Inspection is a function as a command of its handler sees it.
type Inspection struct {
	Env      Env
	Settings any               // a pointer to the handler's Settings struct
	Function trigger.Function  // without Handler and DeadLetters
	Leases   *cosmos.Container // its lease container
}

// Probe tries one thing that a handler needs, such as a connection to its sink. It
// changes nothing.
type Probe struct {
	What string // for the line of the command check, such as "Redis of HALLEY_LEADERBOARD_REDIS_URL"
	Try  func(ctx context.Context) error
}

// OfferProbe gives a probe to the command check. A handler offers it in Open; it is tried
// before the handler is closed, and never by a host.
func (e Env) OfferProbe(p Probe) {
	if e.Probe != nil {
		e.Probe(p)
	}
}

// RangeCallbacks are called when a host begins and ends to work on a range, for handlers
// that keep something for each range, such as changes that a sink gets in one write. Each
// may be nil. Their contracts are those of the fields of [trigger.Function] with these
// names.
type RangeCallbacks struct {
	Opened func(ctx context.Context, r trigger.RangeInfo)
	// Flush makes the changes of a range durable that the handler keeps in memory. With it,
	// positions are saved as with HALLEY_CHECKPOINT_MANUAL, whatever the settings of
	// checkpoints say: the handler calls [trigger.Batch.Checkpoint] when it has written
	// its changes itself.
	Flush  func(ctx context.Context, r trigger.RangeInfo) error
	Closed func(r trigger.RangeInfo, reason trigger.CloseReason, err error)
	// SnapshotRead removes rows that a snapshot has not shown.
	SnapshotRead func(ctx context.Context, s trigger.SnapshotEnd) error
}

// FollowRanges gives the handler's callbacks to the app. A handler calls it in Open, once.
// Replays of dead letters work on no range: they make no callback, and remove a dead letter
// when the handler has returned nil. Their batches have a range without bounds, so that the
// handler can tell, and keep nothing in memory.
func (e Env) FollowRanges(c RangeCallbacks) {
	if e.Follow != nil {
		e.Follow(c)
	}
}

// BorrowBatches tells the app that the handler keeps no bytes of a batch after its call, so
// that the next page has them: see ReuseBuffers of [trigger.Function]. A handler calls it in
// Open.
func (e Env) BorrowBatches() {
	if e.Borrow != nil {
		e.Borrow()
	}
}

// Log returns Logger, or a logger without output if Logger is nil.
func (e Env) Log() *zap.Logger {
	if e.Logger == nil {
		return zap.NewNop()
	}
	return e.Logger
}
