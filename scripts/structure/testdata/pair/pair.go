// Package pair has two types in one file that use each other.
package pair

type List struct{ first *Node }

type Node struct{ list *List }
