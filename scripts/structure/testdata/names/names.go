// Package names has ten names of two words, of one word, and of the glossary.
package names

import "sync"

const retryLimit = 3

var ID, leaseID string

type Lease struct {
	sync.Mutex
	epoch  int
	keeper *leaseWriter
}

type leaseWriter interface{ Run() }

func (*Lease) ETag() (etag string) { return }

func _() {}

func init() {}

func Ranges() (found []int) { return }
