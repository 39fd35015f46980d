package leases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"halley/trigger/internal/lease"
)

// Export is a copy of the leases of one function, to be stored as JSON. It is the
// backup before a change, and [Control.PlanImport] restores its positions.
type Export struct {
	Format     string          `json:"format"`     // exportFormat
	Time       time.Time       `json:"time"`       // on the service's clock
	Function   string          `json:"function"`   // its name
	Database   string          `json:"database"`   // of the monitored container
	Container  string          `json:"container"`  // the monitored container
	ResourceID string          `json:"resourceId"` // a container created again under its name has another
	Leases     []ExportedLease `json:"leases"`     // in the order of their tokens
}

// ExportedLease is one lease of an export.
type ExportedLease struct {
	Range        string          `json:"range"` // lease token
	Min          string          `json:"min"`   // hashed keys, [Min, Max)
	Max          string          `json:"max"`   // "" if the keys are not known
	Mode         string          `json:"mode"`  // of the feed, as in the document
	Continuation string          `json:"continuation"`
	Snapshot     bool            `json:"snapshot,omitempty"` // the continuation is a position in the snapshot of the range
	Document     json.RawMessage `json:"document"`           // as stored, without finished changes, for other tools; an import does not read it
}

const exportFormat = "halley-leases/1"

// Export copies the leases.
func (c *Control) Export(ctx context.Context) (Export, error) {
	set := c.openSet()
	found, err := set.Inspect(ctx)
	if err != nil {
		return Export{}, fmt.Errorf("export leases: %w", err)
	}
	e := Export{
		Format: exportFormat, Time: set.Now().UTC(), Function: c.source.Name, Database: c.source.Container.Database(),
		Container: c.source.Container.Name(), ResourceID: set.Monitored().ResourceID, Leases: []ExportedLease{},
	}
	for _, l := range sortedByToken(found.Leases) {
		e.Leases = append(e.Leases, ExportedLease{
			Range: l.Token(), Min: l.Span().Min, Max: l.Span().Max, Mode: l.Mode(), Continuation: l.Continuation(), Snapshot: l.Property(lease.SnapshotProperty) != "", Document: l.Document(),
		})
	}
	return e, nil
}

// PlanImport plans to restore the positions of an export. A lease that was split off
// since gets the position of the exported lease that had its keys. A lease that is
// missing is created. A lease whose keys several exported leases had, because ranges
// were merged, is refused, and leases that the export does not know stay.
func (c *Control) PlanImport(ctx context.Context, e Export) (Plan, error) {
	if e.Format != exportFormat {
		return Plan{}, fmt.Errorf("plan to import: format %q is not %q", e.Format, exportFormat)
	}
	var found lease.Inspection
	plan, err := c.plan(ctx, ActionSeek, nil, func(set *lease.Set, inspected lease.Inspection, s *Step) {
		found = inspected
		if e.ResourceID != set.Monitored().ResourceID {
			s.Refused = fmt.Sprintf("the export is of container %s/%s with resource id %q, this one has %q", e.Database, e.Container, e.ResourceID, set.Monitored().ResourceID)
			return
		}
		exported, several := e.covering(s.Range, s.lease.Span())
		switch {
		case several:
			s.Refused = "its keys were in several leases of the export, because ranges were merged since: seek it to a time before the export"
		case exported == nil:
			s.Nothing, s.Known = true, true
		case exported.Mode != s.lease.Mode():
			s.Refused = fmt.Sprintf("the export is in mode %q, the lease in mode %q", exported.Mode, s.lease.Mode())
		case exported.Snapshot:
			s.Refused = "the export is from within the snapshot of the range: seek to snapshot, which begins it again"
		default:
			c.seekTo(ctx, set, s, exported.Continuation)
		}
	})
	if err != nil {
		return plan, err
	}
	for _, gap := range found.Gaps {
		exported, several := e.covering(gap.Token(), gap.Span)
		if exported == nil || several || exported.Snapshot {
			continue // an audit of the hosts fills the gap
		}
		plan.Steps = append(plan.Steps, Step{Range: gap.Token(), Action: ActionCreate, To: exported.Continuation, gap: gap})
	}
	return plan, nil
}

// covering returns the exported lease with all keys of a span, or with its token, nil if
// there is none. several means that more than one has some of the keys.
func (e Export) covering(token string, keys lease.Span) (found *ExportedLease, several bool) {
	sharing := 0
	for i := range e.Leases {
		exported := &e.Leases[i]
		span := lease.Span{Min: exported.Min, Max: exported.Max}
		if exported.Range == token || span.Covers(keys) {
			return exported, false
		}
		if span.Shares(keys) {
			sharing++
		}
	}
	return nil, sharing > 0
}

// ReadExport parses an export.
func ReadExport(raw []byte) (e Export, err error) {
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("read lease export: %w", err)
	}
	if e.Format != exportFormat {
		return e, fmt.Errorf("read lease export: format %q is not %q", e.Format, exportFormat)
	}
	if len(e.Leases) == 0 {
		return e, errors.New("read lease export: it has no leases")
	}
	return e, nil
}
