// Package functions has types that only functions join.
package functions

type Left struct{}

type Right struct{ left Left }

func join(l Left) Right { return Right{l} }

func (l Left) right() bool { return swap(l) }

func swap(l Left) bool { return join(l) == Right{} }
