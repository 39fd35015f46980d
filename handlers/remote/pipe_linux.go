package remote

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize holds most requests, so that a process reads them with few switches between the
// two. It is the most that Linux allows by default, see pipe(7).
const pipeSize = 1 << 20

// widen enlarges a pipe. It is of the usual size if the system allows no larger one.
func widen(pipe *os.File) {
	if connection, err := pipe.SyscallConn(); err == nil {
		_ = connection.Control(func(descriptor uintptr) { _, _ = unix.FcntlInt(descriptor, unix.F_SETPIPE_SZ, pipeSize) })
	}
}
