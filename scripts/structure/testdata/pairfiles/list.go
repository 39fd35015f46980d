// Package pairfiles has two types in two files that use each other.
package pairfiles

type List[T any] struct{ first *Node[T] }
