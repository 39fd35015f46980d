// Package promoted has a type that uses another one only by its members: a
// promoted field, a method of a function's result and a constant.
package promoted

type Outer struct{ Inner }

type Inner struct{ depth int }

func (Inner) size() int { return 1 }

type Mode int

const modeFast Mode = 1

func newInner() Inner { return Inner{} }

type ByField struct{ outer *Outer }

func (b ByField) depth() int { return b.outer.depth }

type ByMethod struct{}

func (ByMethod) size() int { return newInner().size() }

type ByConstant struct{}

func (ByConstant) fast(n int) bool { return n == int(modeFast) }
