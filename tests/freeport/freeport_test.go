package freeport

import (
	"fmt"
	"net"
	"testing"
)

// A port that somebody listens on is never chosen, and others are.
func TestFree(t *testing.T) {
	for n := first; n < end; n++ {
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", n)); err == nil {
			defer listener.Close()
		}
	}
	if n, err := Find(); err == nil {
		t.Errorf("all are taken, but Find returns %d", n)
	}
}
