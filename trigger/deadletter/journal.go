package deadletter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"halley/trigger"
)

// journal is the file of one function and what this process knows of it. It is
// used by one goroutine at a time, under the file's lock.
type journal struct {
	path     string
	function string
	report   func(error)
	turn     chan struct{} // holds a token while nobody uses the journal

	file    *os.File // while locked; nil where there is none
	name    string   // random, of the file that the fields below are of
	scanned int64    // how far it was read
	alive   int64    // bytes of the letters that are there
	entries map[string]entry
	keys    map[string]int // letters by name of their key
	damage  []stretch
	entered bool // the directory is known to hold the file for good
}

// entry is a letter in the file.
type entry struct {
	position
	in  stretch
	key string
}

func newJournal(path, function string, report func(error)) *journal {
	j := &journal{path: path, function: function, report: report, turn: make(chan struct{}, 1)}
	j.forget()
	j.turn <- struct{}{}
	return j
}

// forget makes the next use read the file from its beginning.
func (j *journal) forget() {
	j.name, j.scanned, j.alive, j.damage = "", 0, 0, nil
	j.entries, j.keys = map[string]entry{}, map[string]int{}
}

// locked calls use while no one else, here or in another process, uses the
// file, and with all of it read.
func (j *journal) locked(ctx context.Context, use func(*journal) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case <-j.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { j.turn <- struct{}{} }()
	unlock, err := lockFile(ctx, j.path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if j.file, err = os.OpenFile(j.path, os.O_RDWR, 0); errors.Is(err, os.ErrNotExist) {
		j.file = nil
	} else if err != nil {
		return err
	}
	defer func() {
		if j.file != nil {
			_ = j.file.Close() // what had to be durable was synced
			j.file = nil
		}
	}()
	if err := j.refresh(); err != nil {
		return fmt.Errorf("read %s: %w", j.path, err)
	}
	return use(j)
}

// lockFile waits for the lock of a file, which is made where it is not there.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		held, err := tryLock(f)
		if held {
			return func() { _ = f.Close() }, nil // which unlocks
		}
		if err == nil {
			select {
			case <-time.After(wait):
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
}

// refresh reads what was appended since the last time, or all of another file.
func (j *journal) refresh() error {
	if j.file == nil {
		j.forget()
		return nil
	}
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	name, err := fileName(j.file, size)
	if err != nil {
		return err
	}
	if name != j.name || size < j.scanned {
		j.forget()
		j.name = name
	}
	err = scanFrames(j.file, j.scanned, size, j.apply, j.damaged)
	if err != nil {
		j.forget()
		return err
	}
	j.scanned = size
	return nil
}

// fileName is the random name that a file begins with, "" where it is damaged.
func fileName(file *os.File, size int64) (string, error) {
	f, err := readFrame(file, 0, size)
	if errors.Is(err, errNoFrame) || err == nil && f.kind != frameFile {
		return "", nil
	}
	return string(f.payload), err
}

func (j *journal) apply(f frame) {
	switch f.kind {
	case frameLetter:
		l, err := decode(f.payload)
		if err != nil || l.Function != j.function {
			j.damaged(stretch{f.at, f.end})
			return
		}
		if _, there := j.entries[l.ID]; !there {
			e := entry{position: positionOf(l, l.ID), in: stretch{f.at, f.end}, key: digest(l.Key)}
			j.entries[l.ID] = e
			j.keys[e.key]++
			j.alive += f.end - f.at
		}
	case frameDeleted:
		var id string
		if json.Unmarshal(f.payload, &id) != nil {
			j.damaged(stretch{f.at, f.end})
			return
		}
		if e, there := j.entries[id]; there {
			delete(j.entries, id)
			if j.keys[e.key]--; j.keys[e.key] == 0 {
				delete(j.keys, e.key)
			}
			j.alive -= e.in.end - e.in.at
		}
	}
}

func (j *journal) damaged(s stretch) {
	j.damage = append(j.damage, s)
	if j.report != nil {
		j.report(j.damageError(s))
	}
}

func (j *journal) damageError(s stretch) error {
	return &DamageError{Where: fmt.Sprintf("%s, byte %d", j.path, s.at), Err: fmt.Errorf("%d bytes are no whole frame", s.end-s.at)}
}

// put makes a letter durable. One that is there may have been written by a
// process that ended before its fsync, so that one is due in any case.
func (j *journal) put(l trigger.DeadLetter) error {
	if _, there := j.entries[l.ID]; there {
		return j.sync()
	}
	payload, err := encode(l)
	if err != nil {
		return err
	}
	return j.append(frameLetter, payload)
}

func (j *journal) remove(id string) error {
	if _, there := j.entries[id]; !there {
		return nil
	}
	payload, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return j.append(frameDeleted, payload)
}

// append writes a frame at the end of the file and waits until it is durable.
// After an error the file is as it was before, as far as the disk allows.
func (j *journal) append(kind byte, payload []byte) error {
	var b []byte
	var err error
	if j.file == nil {
		if j.file, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	end := j.scanned
	if b, err = j.startOfLine(); err != nil {
		return err
	}
	if b, err = appendFrame(b, kind, payload); err != nil {
		return err
	}
	_, err = j.file.WriteAt(b, end)
	if err == nil {
		err = j.sync()
	}
	if err != nil {
		j.forget()
		return errors.Join(err, j.file.Truncate(end))
	}
	return j.refresh()
}

// startOfLine is what must be written ahead of a frame: the name of a new
// file, or the end of a line that a crash left open.
func (j *journal) startOfLine() ([]byte, error) {
	if j.scanned == 0 {
		return appendFrame(nil, frameFile, []byte(rand.Text()))
	}
	var last [1]byte
	if err := readFull(j.file, last[:], j.scanned-1); err != nil || last[0] == '\n' {
		return nil, err
	}
	return []byte("\n"), nil
}

func (j *journal) sync() error {
	if err := j.file.Sync(); err != nil {
		return err
	}
	if j.entered {
		return nil
	}
	if err := syncDirectory(filepath.Dir(j.path)); err != nil {
		return err
	}
	j.entered = true
	return nil
}

// snapshot is the letters of a moment.
type snapshot struct {
	file    *os.File
	size    int64
	entries []entry
	damage  []error
}

// snapshot opens the file once more, so that it can be read without the lock
// and whatever becomes of its name.
func (j *journal) snapshot() (*snapshot, error) {
	s := &snapshot{size: j.scanned, entries: slices.Collect(maps.Values(j.entries))}
	slices.SortFunc(s.entries, func(a, b entry) int { return a.compare(b.position) })
	for _, d := range j.damage {
		s.damage = append(s.damage, j.damageError(d))
	}
	if j.file == nil {
		return s, nil
	}
	var err error
	s.file, err = os.Open(j.path)
	return s, err
}

func (s *snapshot) close() {
	if s.file != nil {
		_ = s.file.Close() // only read
	}
}

func (s *snapshot) letters(ctx context.Context) iter.Seq2[trigger.DeadLetter, error] {
	var current stretch
	positions := func(yield func(position, error) bool) {
		for _, e := range s.entries {
			current = e.in
			if ctx.Err() != nil {
				yield(position{}, context.Cause(ctx))
				return
			}
			if !yield(e.position, nil) {
				return
			}
		}
	}
	return letters(positions, func(position) (trigger.DeadLetter, bool, error) {
		l, err := s.read(current)
		return l, true, err
	})
}

func (s *snapshot) read(at stretch) (trigger.DeadLetter, error) {
	f, err := readFrame(s.file, at.at, s.size)
	if err == nil {
		var l trigger.DeadLetter
		if l, err = decode(f.payload); err == nil {
			return l, nil
		}
	}
	return trigger.DeadLetter{}, &DamageError{Where: fmt.Sprintf("%s, byte %d", s.file.Name(), at.at), Err: err}
}

// mostlyDead reports whether it is worth while to write the file anew.
func (j *journal) mostlyDead(least int64) bool {
	dead := j.scanned - j.alive
	return dead >= least && dead > j.alive
}

// compact writes the letters that are there to a new file and puts it in the
// place of the old. Until then the old one is whole.
func (j *journal) compact() error {
	if err := j.keepDamage(); err != nil {
		return err
	}
	fresh := j.path + ".new"
	if err := j.copyTo(fresh); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	_ = j.file.Close() // some systems rename over no open file
	j.file = nil
	j.forget()
	if err := os.Rename(fresh, j.path); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return syncDirectory(filepath.Dir(j.path))
}

// copyTo writes the letters that are there to another file.
func (j *journal) copyTo(path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := appendFrame(nil, frameFile, []byte(rand.Text()))
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	for _, e := range slices.SortedFunc(maps.Values(j.entries), func(a, b entry) int { return a.compare(b.position) }) {
		old, err := readFrame(j.file, e.in.at, j.scanned)
		if err != nil {
			return err
		}
		if b, err = appendFrame(b[:0], old.kind, old.payload); err != nil {
			return err
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return f.Sync()
}

// keepDamage puts what is no frame into a file of its own.
func (j *journal) keepDamage() (err error) {
	if len(j.damage) == 0 {
		return nil
	}
	f, err := os.OpenFile(j.path+".damaged", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, s := range j.damage {
		if _, err := io.Copy(f, io.NewSectionReader(j.file, s.at, s.end-s.at)); err != nil {
			return err
		}
	}
	return f.Sync()
}
