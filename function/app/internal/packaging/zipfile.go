package packaging

import (
	"archive/zip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// oldest is the earliest time that a zip file can represent.
var oldest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// writeZip writes files, by their names in the zip, in order and with one time, so
// that equal files make equal packages. The executable gets its run bit. If writing
// fails, target is as it was.
func writeZip(target string, files map[string]string, executable string) (err error) {
	out, err := os.CreateTemp(filepath.Dir(target), ".package-*.zip")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	archive := zip.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(archive, name, files[name], name == executable); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	if err := errors.Join(archive.Close(), out.Chmod(0o644), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), target)
}

func addFile(archive *zip.Writer, name, path string, run bool) error {
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: oldest}
	header.SetMode(0o644)
	if run {
		header.SetMode(0o755)
	}
	entry, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(entry, file)
	return err
}
