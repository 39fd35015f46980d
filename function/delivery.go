package main

import (
	"errors"
	"fmt"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// deliverySettings say what happens between the feed and the handler, and when
// the handler fails. A function may override each: HALLEY_<FUNCTION>_<NAME>.
type deliverySettings struct {
	HandlerTimeout        interval       `split_words:"true" desc:"deadline of one handler call"`
	StuckGrace            interval       `split_words:"true" desc:"how long a handler may ignore its deadline before its range is given up"`
	BatchItems            count          `split_words:"true" desc:"changes in a batch at most; MAX_ITEMS_PER_INVOCATION where not set"`
	BatchBytes            count          `split_words:"true" desc:"bytes in a batch at most; a single change may be larger"`
	BatchWindow           interval       `split_words:"true" desc:"how long a batch that is not full waits for more, counted from its first change"`
	Lanes                 count          `split_words:"true" desc:"ordered queues inside a range: handler calls at a time; one partition key stays in one lane"`
	LanesByID             toggle         `split_words:"true" desc:"spread by partition key and id: order per document only"`
	RetryMin              interval       `split_words:"true" desc:"wait after the first failure; doubles with each further one in a row"`
	RetryMax              interval       `split_words:"true" desc:"longest wait between two attempts"`
	NoBisection           toggle         `split_words:"true" desc:"keep a failing batch together instead of halving it until the change that fails is alone"`
	MaxAttempts           limit          `split_words:"true" desc:"failures of the same changes before they are dead-lettered, or unlimited; without a dead letter store unlimited"`
	RetryMaxAge           interval       `split_words:"true" desc:"age of the first failure at which changes are dead-lettered; 0s is unlimited"`
	DeadLetters           letters        `split_words:"true" desc:"container (that of the leases), container:NAME (in their database), directory:PATH, blob:CONTAINER, queue:NAME (messages about dead letters in the blob container of that name), drop (lose them) or none (wait)"`
	DeadLettersConnection connectionName `split_words:"true" desc:"name of the connection of the Azure Storage account of blob: and queue:"`
	BlockKeys             toggle         `split_words:"true" desc:"later changes of a dead-lettered change's key follow it untried, until a replay"`
	BreakerLimit          limit          `split_words:"true" desc:"changes dead-lettered in a row before a range pauses ahead of each further one, or unlimited"`
	BreakerPause          interval       `split_words:"true" desc:"that pause"`
	CheckpointEvery       bound          `split_words:"true" desc:"save a position after that many changes; 0 with no interval: as soon as a batch is handled"`
	CheckpointInterval    interval       `split_words:"true" desc:"save a position when the last save is that long ago; with CHECKPOINT_EVERY what comes first"`
	CheckpointManual      toggle         `split_words:"true" desc:"save only the positions that the handler asks for"`
}

func defaultDelivery() deliverySettings {
	return deliverySettings{
		HandlerTimeout:        interval(5 * time.Minute),
		StuckGrace:            interval(10 * time.Second),
		BatchBytes:            4 << 20,
		Lanes:                 1,
		RetryMin:              interval(100 * time.Millisecond),
		RetryMax:              interval(30 * time.Second),
		DeadLetters:           letters{kind: lettersContainer},
		DeadLettersConnection: "AzureWebJobsStorage",
		BreakerLimit:          10,
		BreakerPause:          interval(time.Minute),
	}
}

// function is what the runtime is told of the settings.
func (f *functionSettings) function(monitored *cosmos.Container) trigger.Function {
	return trigger.Function{
		Name:                  f.Name,
		LeasePrefix:           f.leasePrefix(),
		Container:             monitored,
		ChangeFeedMode:        cosmos.Mode(f.ChangeFeedMode),
		SoftDeleteProperty:    f.SoftDeleteProperty,
		StartFrom:             f.StartFrom.Start,
		FeedPollDelay:         time.Duration(f.FeedPollDelay),
		ResetLeases:           bool(f.ResetLeases),
		MaxItemsPerInvocation: int(f.MaxItemsPerInvocation),
		HandlerTimeout:        time.Duration(f.HandlerTimeout),
		BatchItems:            int(f.BatchItems),
		BatchBytes:            int(f.BatchBytes),
		BatchWindow:           time.Duration(f.BatchWindow),
		Lanes:                 int(f.Lanes),
		LanesByID:             bool(f.LanesByID),
		RetryMin:              time.Duration(f.RetryMin),
		RetryMax:              time.Duration(f.RetryMax),
		NoBisection:           bool(f.NoBisection),
		MaxAttempts:           int(f.MaxAttempts),
		RetryMaxAge:           time.Duration(f.RetryMaxAge),
		BlockKeys:             bool(f.BlockKeys),
		BreakerLimit:          int(f.BreakerLimit),
		BreakerPause:          time.Duration(f.BreakerPause),
		Checkpoint: trigger.Checkpoint{
			Every: int(f.CheckpointEvery), Interval: time.Duration(f.CheckpointInterval), Manual: bool(f.CheckpointManual),
		},
	}
}

// leasePrefix is LEASE_CONTAINER_PREFIX, by default the function's name. An empty
// value is the empty prefix, which the Functions trigger uses by default.
func (f *functionSettings) leasePrefix() string {
	if f.LeaseContainerPrefix == "" {
		return trigger.NoLeasePrefix
	}
	return f.LeaseContainerPrefix
}

// policy refuses a delivery policy that cannot work or contradicts itself.
func (f *functionSettings) policy() error {
	var errs []error
	refuse := func(name string, value any, why string) {
		errs = append(errs, fmt.Errorf("%s=%v: %s", f.setting(name), value, why))
	}
	for _, d := range []struct {
		name  string
		d     interval
		least interval
	}{
		{"HANDLER_TIMEOUT", f.HandlerTimeout, 1}, {"STUCK_GRACE", f.StuckGrace, 1},
		{"RETRY_MIN", f.RetryMin, 1}, {"RETRY_MAX", f.RetryMax, 1}, {"BREAKER_PAUSE", f.BreakerPause, 1},
		{"BATCH_WINDOW", f.BatchWindow, 0}, {"RETRY_MAX_AGE", f.RetryMaxAge, 0}, {"CHECKPOINT_INTERVAL", f.CheckpointInterval, 0},
	} {
		switch {
		case d.d < d.least && d.least > 0:
			refuse(d.name, d.d, "must be above 0")
		case d.d < 0:
			refuse(d.name, d.d, "must not be negative")
		}
	}
	if f.RetryMin > f.RetryMax {
		refuse("RETRY_MIN", f.RetryMin, fmt.Sprintf("must not be more than %s=%v", f.setting("RETRY_MAX"), f.RetryMax))
	}
	if f.CheckpointManual && (f.CheckpointEvery > 0 || f.CheckpointInterval > 0) {
		refuse("CHECKPOINT_MANUAL", f.CheckpointManual, fmt.Sprintf("leaves nothing for %s and %s: remove these, or it",
			f.setting("CHECKPOINT_EVERY"), f.setting("CHECKPOINT_INTERVAL")))
	}
	if f.LanesByID && f.Lanes == 1 {
		refuse("LANES_BY_ID", f.LanesByID, fmt.Sprintf("spreads nothing over one lane: set %s to 2 or more", f.setting("LANES")))
	}
	return errors.Join(append(errs, f.givingUp())...)
}

// givingUp refuses a way to give changes up for which there is no store, or an
// order that is not kept.
func (f *functionSettings) givingUp() error {
	var errs []error
	refuse := func(name string, value any, why string) {
		errs = append(errs, fmt.Errorf("%s=%v: %s", f.setting(name), value, why))
	}
	store := f.setting("DEAD_LETTERS")
	if f.DeadLetters.kind == lettersNone {
		const fix = "nothing is given up without a store: remove it, or set %s=container"
		if f.MaxAttempts != unlimited {
			refuse("MAX_ATTEMPTS", f.MaxAttempts, fmt.Sprintf(fix, store))
		}
		if f.RetryMaxAge > 0 {
			refuse("RETRY_MAX_AGE", f.RetryMaxAge, fmt.Sprintf(fix, store))
		}
	}
	if bool(f.BlockKeys) && !f.DeadLetters.keeps() {
		refuse("BLOCK_KEYS", f.BlockKeys, fmt.Sprintf("needs a store to keep them in: set %s=container, or remove it", store))
	}
	if f.BlockKeys && f.LanesByID {
		refuse("BLOCK_KEYS", f.BlockKeys, fmt.Sprintf("keeps the order of a key, which %s gives up: remove one of them", f.setting("LANES_BY_ID")))
	}
	if f.DeadLetters.onStorage() && f.DeadLettersConnection == "" {
		refuse("DEAD_LETTERS_CONNECTION", `""`, fmt.Sprintf("%s=%v needs an Azure Storage account: name its connection", store, f.DeadLetters))
	}
	return errors.Join(errs...)
}
