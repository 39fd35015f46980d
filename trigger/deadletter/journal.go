package deadletter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"halley/trigger"
	"halley/trigger/deadletter/internal/record"
)

// journal is the file of one function and the index of it in this process. The
// goroutine that is in withLock owns it.
type journal struct {
	path   string
	source trigger.DeadLetterSource
	report func(error)
	lock   chan struct{} // has a token while the journal is free; taken before the file lock

	file      *os.File // open in withLock; nil if it does not exist
	name      string   // random name of the file that the fields below describe
	scanned   int64    // bytes of the file that were read
	liveBytes int64    // bytes of the dead letters that are not deleted
	entries   map[string]entry
	keys      map[string]int // number of dead letters by digest of their key, without postponed changes
	damage    []span
	dirSynced bool // the directory entry of the file was synced
}

// entry is a record in the file. If it has a form of a later version, only its place and
// perhaps its key are known.
type entry struct {
	record.Position
	in   span
	key  string
	kind trigger.RecordKind
}

// isSelected reports whether a query may select the record, as far as the index knows it.
func (e entry) isSelected(q trigger.DeadLetterQuery, key string) bool {
	if e.kind == "" {
		return true
	}
	return e.kind == q.Kind && (q.ID == "" || q.ID == e.At) && (q.Key == "" || e.key == key) && (q.Range == "" || q.Range == e.Token) &&
		!e.Time.Before(q.After) && (q.Before.IsZero() || e.Time.Before(q.Before))
}

func newJournal(path string, source trigger.DeadLetterSource, report func(error)) *journal {
	j := &journal{path: path, source: source, report: report, lock: make(chan struct{}, 1)}
	j.reset()
	j.lock <- struct{}{}
	return j
}

// reset makes the next use read the file from its beginning.
func (j *journal) reset() {
	j.name, j.scanned, j.liveBytes, j.damage = "", 0, 0, nil
	j.entries, j.keys = map[string]entry{}, map[string]int{}
}

// withLock calls use while no other goroutine or process uses the file. Before
// that, it reads the frames that were appended.
func (j *journal) withLock(ctx context.Context, use func(*journal) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case <-j.lock:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { j.lock <- struct{}{} }()
	if err := checkDirectory(filepath.Dir(j.path)); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, j.path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if j.file, err = openFile(j.path, os.O_RDWR, 0); errors.Is(err, os.ErrNotExist) {
		j.file = nil
	} else if err != nil {
		return err
	}
	defer func() {
		if j.file != nil {
			_ = j.file.Close() // writes were synced before
			j.file = nil
		}
	}()
	if err := j.refresh(); err != nil {
		return fmt.Errorf("read %s: %w", j.path, err)
	}
	return use(j)
}

// lockFile waits for the lock of a file, which it creates if it does not exist.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := openFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		held, err := tryLock(f)
		if held {
			return func() { _ = f.Close() }, nil // Close unlocks
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

// refresh reads the frames that were appended since the last call. If another
// process has replaced the file, it reads all of it.
func (j *journal) refresh() error {
	if j.file == nil {
		j.reset()
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
		j.reset()
		j.name = name
	}
	err = scanFrames(j.file, j.scanned, size, j.apply, j.recordDamage)
	if err != nil {
		j.reset()
		return err
	}
	j.scanned = size
	return nil
}

// fileName returns the random name in the first frame of a file, or "" if that
// frame is damaged.
func fileName(file *os.File, size int64) (string, error) {
	f, err := readFrame(file, 0, size)
	if errors.Is(err, errNoFrame) || err == nil && f.kind != frameFile {
		return "", nil
	}
	return string(f.payload), err
}

func (j *journal) apply(f frame) {
	switch f.kind {
	case frameDeadLetter:
		l, err := record.Decode(f.payload)
		if l.ID == "" || l.Source() != j.source {
			j.recordDamage(span{f.at, f.end})
			return
		}
		if _, found := j.entries[l.ID]; !found {
			e := entry{Position: record.PositionOf(l, l.ID), in: span{f.at, f.end}, key: record.Digest(l.Key), kind: l.Kind}
			if err != nil {
				j.reportDamage(e.in, err)
			}
			j.entries[l.ID] = e
			j.countKey(e, 1)
			j.liveBytes += f.end - f.at
		}
	case frameDeleted:
		var id string
		if json.Unmarshal(f.payload, &id) != nil {
			j.recordDamage(span{f.at, f.end})
			return
		}
		if e, found := j.entries[id]; found {
			delete(j.entries, id)
			j.countKey(e, -1)
			j.liveBytes -= e.in.end - e.in.at
		}
	}
}

func (j *journal) countKey(e entry, n int) {
	if e.kind == trigger.RecordPostponed {
		return
	}
	if j.keys[e.key] += n; j.keys[e.key] == 0 {
		delete(j.keys, e.key)
	}
}

var errNoWholeFrame = errors.New("these bytes are not a complete frame")

func (j *journal) recordDamage(s span) {
	j.damage = append(j.damage, s)
	j.reportDamage(s, errNoWholeFrame)
}

func (j *journal) reportDamage(s span, cause error) {
	if j.report != nil {
		j.report(damageIn(j.path, s, cause))
	}
}

func damageIn(path string, s span, cause error) error {
	return &DamageError{Where: fmt.Sprintf("%s, bytes %d to %d", path, s.at, s.end), Err: cause}
}

// put makes a dead letter durable. If it is in the file, put syncs
// nevertheless: the process that wrote it may have crashed before fsync.
func (j *journal) put(l trigger.DeadLetter) error {
	if _, found := j.entries[l.ID]; found {
		return j.sync()
	}
	payload, err := record.Encode(l)
	if err != nil {
		return err
	}
	return j.append(frameDeadLetter, payload)
}

func (j *journal) remove(id string) error {
	if _, found := j.entries[id]; !found {
		return nil
	}
	payload, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return j.append(frameDeleted, payload)
}

// append appends a frame and syncs the file. If that fails, it truncates the
// file to its old size.
func (j *journal) append(kind byte, payload []byte) error {
	var b []byte
	var err error
	if j.file == nil {
		if j.file, err = openFile(j.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	end := j.scanned
	if b, err = j.framePrefix(); err != nil {
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
		j.reset()
		return errors.Join(err, j.file.Truncate(end))
	}
	return j.refresh()
}

// framePrefix returns the bytes to write before a frame: the frame with the
// name if the file is new, or an end of line if a crash left an incomplete
// line.
func (j *journal) framePrefix() ([]byte, error) {
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
	if j.dirSynced {
		return nil
	}
	if err := syncDirectory(filepath.Dir(j.path)); err != nil {
		return err
	}
	j.dirSynced = true
	return nil
}

// needsCompaction reports whether enough of the file is unused to rewrite it.
func (j *journal) needsCompaction(least int64) bool {
	dead := j.scanned - j.liveBytes
	return dead >= least && dead > j.liveBytes
}

// compact replaces the file with one that has only the dead letters that are
// not deleted. Until the rename, the old file is unchanged.
func (j *journal) compact() error {
	if err := j.saveDamaged(); err != nil {
		return err
	}
	fresh := j.path + ".new"
	if err := j.copyTo(fresh); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	_ = j.file.Close() // some systems cannot replace an open file
	j.file = nil
	j.reset()
	if err := os.Rename(fresh, j.path); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return syncDirectory(filepath.Dir(j.path))
}

// copyTo writes the dead letters that are not deleted to a new file.
func (j *journal) copyTo(path string) (err error) {
	f, err := openFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
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
	all := slices.Collect(maps.Values(j.entries))
	sort.Slice(all, func(a, b int) bool { return all[a].in.at < all[b].in.at })
	for _, e := range all {
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

// saveDamaged appends the damaged parts to the file with the suffix .damaged.
func (j *journal) saveDamaged() (err error) {
	if len(j.damage) == 0 {
		return nil
	}
	f, err := openFile(j.path+".damaged", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
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
