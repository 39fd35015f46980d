package deadletter

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks a file unless another process has locked it. Closing the file
// or the end of the process unlocks it.
func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// syncDirectory does nothing: NTFS logs its directory entries, and Windows
// cannot sync a directory.
func syncDirectory(string) error { return nil }

// noFollow is no flag: Windows has none that os.OpenFile would pass on. openFile
// checks the file before it opens it.
const noFollow = 0

// writableByOthers returns false: permissions of Windows are not in the mode.
func writableByOthers(os.FileInfo) bool { return false }

// replaceableByAll returns false, like writableByOthers.
func replaceableByAll(os.FileInfo) bool { return false }
