//go:build unix && !solaris && !aix

package deadletter

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// tryLock takes the lock of a file unless someone has it. It ends with the
// file's Close, and with the process.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("the file system of the dead letter directory must know file locks: %w", err)
		}
	}
}

// syncDirectory makes durable which files a directory has.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
