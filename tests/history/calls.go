package history

// calledKey is a logical partition key in the work of one owner.
type calledKey struct {
	stream
	key string // and its document, if lanes go by document
}

func (c *checker) calledKey(e Event) calledKey {
	called := calledKey{stream{e.Host, tenure{e.Range, e.Epoch}, c.term(e)}, e.Key}
	if c.limits.LanesByID {
		called.key += "/" + e.ID
	}
	return called
}

// beginCall judges that an owner has no other running call with the key of a delivery.
func (c *checker) beginCall(e Event) {
	called := c.calledKey(e)
	if other, running := c.running[called]; running && other != e.Call {
		c.report.violate(OneCall, e.Key, c.now, "%q delivers %d in epoch %d of range %q while another call with the key runs", e.Host, e.Seq, e.Epoch, e.Range)
	}
	c.running[called] = e.Call
}

// endCall forgets a call that has ended.
func (c *checker) endCall(call int64, deliveries []Event) {
	for _, d := range deliveries {
		if called := c.calledKey(d); c.running[called] == call {
			delete(c.running, called)
		}
	}
}
