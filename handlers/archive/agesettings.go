package archive

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"go.uber.org/zap"

	"halley/handlers"
	"halley/trigger/cosmos"
)

// Ageing is the setting AGE_OUT: the end of a document whose change is archived.
type Ageing string

// The kinds of ageing. The zero value is: documents stay.
const (
	AgeingTTL    Ageing = "ttl"    // the document gets a ttl
	AgeingDelete Ageing = "delete" // the document is deleted at once
)

// longestTTL is that of Cosmos DB: seconds in 31 bits.
const longestTTL = math.MaxInt32 * time.Second

// AgeingOptions are the options of [Archive.AgeOut].
type AgeingOptions struct {
	Kind      Ageing
	Container *cosmos.Container // the monitored container
	Place     string            // of the archive: documents that have aged for another one are archived here, too
	After     time.Duration     // the ttl of AgeingTTL, in whole seconds
	PerSecond int               // bound of documents a second, of one process
	DryRun    bool              // count and log the documents, and write nothing
	Logger    *zap.Logger       // none
	Meter     *handlers.Meter   // of the monitored container
}

func (s Settings) validateAgeing() error {
	switch {
	case s.AgeOut != "" && s.AgeOut != AgeingTTL && s.AgeOut != AgeingDelete:
		return fmt.Errorf("AGE_OUT is %q; write %s or %s, or leave it empty", s.AgeOut, AgeingTTL, AgeingDelete)
	case s.AgeOut == AgeingTTL && (s.AgeAfter < handlers.Interval(time.Minute) || s.AgeAfter > handlers.Interval(longestTTL)):
		return fmt.Errorf("AGE_AFTER is %v; write how long a document stays after its last change, such as 720h: from 1m to %v", s.AgeAfter, longestTTL)
	case s.AgeOut != AgeingTTL && s.AgeAfter != 0:
		return fmt.Errorf("AGE_AFTER is set, but AGE_OUT is not %s; remove it, or set AGE_OUT", AgeingTTL)
	case s.AgeOut == "" && bool(s.AgeDryRun):
		return fmt.Errorf("AGE_DRY_RUN is true, but AGE_OUT is empty; write %s or %s there", AgeingTTL, AgeingDelete)
	}
	return nil
}

// ageing returns the options that the settings describe. For a ttl it offers a probe.
func (s Settings) ageing(env handlers.Env, store Store) AgeingOptions {
	monitored := env.Container(env.Database, env.ContainerName)
	if s.AgeOut == AgeingTTL {
		env.OfferProbe(handlers.Probe{What: "time to live of container " + env.ContainerName, Try: func(ctx context.Context) error {
			return requireTTL(ctx, monitored)
		}})
	}
	place := s.Directory
	if blobs, ok := store.(*Blobs); ok {
		place, _, _ = strings.Cut(blobs.container.URL(), "?") // without a signature
	}
	return AgeingOptions{
		Kind: s.AgeOut, Container: monitored, Place: place, After: time.Duration(s.AgeAfter), PerSecond: int(s.AgePerSecond),
		DryRun: bool(s.AgeDryRun), Logger: env.Log(), Meter: env.Meter("cosmos"),
	}
}

// AgeOut has documents age out whose changes [Archive.Handle] has archived. It is called before
// the first batch is handled.
func (a *Archive) AgeOut(options AgeingOptions) {
	a.ager = &ager{
		AgeingOptions: options, archive: nameInMarks(options.Place, a.options.Prefix),
		pacer: pacer{interval: time.Second / time.Duration(max(options.PerSecond, 1))},
	}
	if a.ager.Logger == nil {
		a.ager.Logger = zap.NewNop()
	}
}
