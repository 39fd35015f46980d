package pairfiles

type Node[T any] struct{ list *List[T] }
