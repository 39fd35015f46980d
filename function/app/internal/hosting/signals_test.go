package hosting

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A supervisor that signals the group and the process sends two signals for one stop.
func TestRepeatedSignalDoesNotEndTheProcess(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
		exits bool
	}{
		{"at once", 0, false},
		{"within a second", 900 * time.Millisecond, false},
		{"later", 1100 * time.Millisecond, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				received := make(chan os.Signal, 4)
				stopped, exited := 0, 0
				go watchSignals(received, func() { stopped++ }, func(os.Signal) { exited++ })
				received <- syscall.SIGTERM
				time.Sleep(test.after)
				received <- syscall.SIGINT
				synctest.Wait()
				if stopped != 1 || exited == 1 != test.exits {
					t.Errorf("stopped %d times, ended %d times", stopped, exited)
				}
				close(received)
			})
		})
	}
}
