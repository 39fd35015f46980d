package deadletter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkDirectory returns an error if the path of a directory has a symbolic link,
// or if others may write to the directory. The path is absolute and clean.
func checkDirectory(path string) error {
	root := filepath.VolumeName(path) + string(filepath.Separator)
	parent := root
	for name := range strings.SplitSeq(strings.TrimPrefix(path, root), string(filepath.Separator)) {
		current := filepath.Join(parent, name)
		info, err := os.Lstat(current)
		switch {
		case err != nil:
			return err
		case isLink(info):
			return linkError(path, current)
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory", current)
		case current == path && writableByOthers(info):
			return fmt.Errorf("others may write to %s (mode %v), and could plant files for the store: run chmod go-w on it; if it is a mounted share, mount it with dir_mode=0700", path, info.Mode())
		case current != path && replaceableByAll(info):
			return fmt.Errorf("all users may replace %s, because they may write to %s (mode %v): run chmod o-w on that directory, or choose another path", path, current, info.Mode())
		}
		parent = current
	}
	return nil
}

// linkError returns the error for a link in the path of a directory.
func linkError(path, link string) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("%s is a symbolic link, and links are not followed: name a path without links", link)
	}
	return fmt.Errorf("%s is a symbolic link, and links are not followed: name the directory itself, %s", link, target)
}

// isLink reports whether a file is a symbolic link or, on Windows, another reparse
// point such as a junction.
func isLink(info os.FileInfo) bool { return info.Mode()&(os.ModeSymlink|os.ModeIrregular) != 0 }

// openFile opens a regular file like [os.OpenFile], but does not follow a symbolic
// link.
func openFile(path string, flag int, perm os.FileMode) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular(path)
	}
	f, err := os.OpenFile(path, flag|noFollow, perm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func notRegular(path string) error {
	return fmt.Errorf("%s is a symbolic link or another special file: remove it", path)
}
