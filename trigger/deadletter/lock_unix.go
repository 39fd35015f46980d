//go:build unix && !solaris && !aix

package deadletter

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// tryLock locks a file unless another process has locked it. Closing the file
// or the end of the process unlocks it.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("the file system of the dead letter directory must support file locks: %w", err)
		}
	}
}

// syncDirectory makes the entries of a directory durable.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// noFollow is the flag of an open that fails if the file is a symbolic link.
const noFollow = syscall.O_NOFOLLOW

// writableByOthers reports whether the group or others may write to a directory.
func writableByOthers(info os.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

// replaceableByAll reports whether all users may replace the entries of a
// directory.
func replaceableByAll(info os.FileInfo) bool {
	return info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0
}
