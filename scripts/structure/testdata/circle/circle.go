// Package circle has a circle of three types: a field, a signature, and a
// method's body.
package circle

type Host struct{ worker *Worker }

type Worker struct{}

func (w *Worker) start(l Lane) {}

type Lane struct{ owner any }

func (l Lane) stop() {
	if h, ok := l.owner.(*Host); ok {
		_ = h
	}
}

// Batch is used by the circle, but does not use it.
type Batch struct{}

func (l Lane) take(Batch) {}
