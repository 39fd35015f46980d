package history

import (
	"slices"
	"time"
)

// sought is a lease that an operator has moved to a position, at or before the one that it
// had: all changes after it are wanted again.
type sought struct {
	span
	token    string
	position int64
	at       time.Time
}

// soughtTo records a seek, and ends the demands of earlier ones on the keys: the new position
// decides.
func (c *checker) soughtTo(e Event, l *lease) {
	keys := span{e.Min, e.Max}
	c.forgetSought(keys)
	if e.Op == Seek && e.Position <= l.position {
		c.seeks = append(c.seeks, sought{keys, e.Range, e.Position, e.Time})
	}
}

// forgetSought ends the demands of seeks on some keys, if their lease was moved, restored or
// deleted since.
func (c *checker) forgetSought(keys span) {
	c.seeks = slices.DeleteFunc(c.seeks, func(s sought) bool { return s.overlaps(keys) })
}

// finishSeeks judges whether the changes after each position that an operator has set were
// delivered since.
func (c *checker) finishSeeks() {
	for _, s := range c.seeks {
		if c.excuses(s.span) {
			continue
		}
		c.report.count(SeekRepeats, 1, 0)
		if key, seq := c.leftOut(s); seq > 0 {
			c.violate(SeekRepeats, "an operator moved lease %q to %d at %s, and %s/%d at %d was not delivered since",
				s.token, s.position, s.at.Format("15:04:05.000"), key, seq, c.keys[key].changes[seq-1].lsn)
		}
	}
}

// leftOut returns a change that a seek wants and that was not delivered since, or 0.
func (c *checker) leftOut(s sought) (name string, seq int64) {
	for _, k := range c.keys {
		for i, change := range k.changes {
			isWanted := change.last && change.written && change.lsn > s.position && s.min <= change.hash && change.hash < s.max && change.wrote.Before(s.at)
			if isWanted && !change.skipped && !change.dead && change.since.IsZero() && !change.delivered.After(s.at) {
				return k.name, int64(i + 1)
			}
		}
	}
	return "", 0
}
