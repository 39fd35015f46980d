package emulator

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
)

// pageCheck reads the pages of a bbolt file that hold data. bbolt itself ends the
// process if it finds a damaged page, often in a goroutine of its own, so the pages
// are checked before it opens the file. The layout is that of bbolt's internal/common:
// meta pages 0 and 1, then a B+ tree of branch and leaf pages for each bucket.
type pageCheck struct {
	file  *os.File
	size  uint64          // of a page
	end   uint64          // the first page number that is not in use
	seen  map[uint64]bool // pages that a bucket has
	found func(bucket string, key, value []byte) error
}

// Flags of pages and of leaf elements, and sizes of headers in bytes.
const (
	branchPage    = 0x01
	leafPage      = 0x02
	bucketElement = 0x01

	pageHeader   = 16
	element      = 16
	metaPage     = pageHeader + 64
	bucketHeader = 16
)

// damage is the error of a file that has a damaged page.
type damage struct {
	file   string
	page   uint64
	reason string
}

func (d *damage) Error() string {
	return fmt.Sprintf("page %d of %s is damaged: %s. Restore the file from a copy, or move it away and begin with an empty account", d.page, d.file, d.reason)
}

// checkPages reads a file and returns the number of pages that hold data. The error is
// a [*damage] if a page is damaged. found is called with every key and value, and may
// be nil.
func checkPages(file *os.File, found func(bucket string, key, value []byte) error) (int, error) {
	c := &pageCheck{file: file, seen: make(map[uint64]bool), found: found}
	root, err := c.meta()
	if err != nil {
		return 0, err
	}
	if err := c.page(root, "", nil); err != nil {
		return 0, err
	}
	return len(c.seen), nil
}

func (c *pageCheck) damaged(page uint64, format string, args ...any) error {
	return &damage{c.file.Name(), page, fmt.Sprintf(format, args...)}
}

// meta finds the newer of the two meta pages and returns the page of the root bucket.
func (c *pageCheck) meta() (root uint64, err error) {
	newest := uint64(0)
	for page := range uint64(2) {
		b := make([]byte, metaPage)
		if _, err := c.file.ReadAt(b, int64(page*max(c.size, uint64(os.Getpagesize())))); err != nil {
			continue
		}
		m := b[pageHeader:]
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56]) // never fails
		if sum.Sum64() != binary.NativeEndian.Uint64(m[56:]) {
			continue
		}
		c.size = uint64(binary.NativeEndian.Uint32(m[8:]))
		if transaction := binary.NativeEndian.Uint64(m[48:]); transaction >= newest {
			newest, root, c.end = transaction, binary.NativeEndian.Uint64(m[16:]), binary.NativeEndian.Uint64(m[40:])
		}
	}
	if c.end == 0 {
		return 0, c.damaged(0, "neither it nor page 1 is a valid meta page")
	}
	return root, nil
}

// page checks a page and those below it. least is the key at which it begins in the
// page above it.
func (c *pageCheck) page(id uint64, bucket string, least []byte) error {
	switch {
	case id < 2 || id >= c.end:
		return c.damaged(id, "the file has the pages 2 to %d", c.end-1)
	case c.seen[id]:
		return c.damaged(id, "it is used twice")
	}
	c.seen[id] = true
	b := make([]byte, c.size)
	if _, err := c.file.ReadAt(b, int64(id*c.size)); err != nil {
		return c.damaged(id, "it cannot be read (%v)", err)
	}
	if found := binary.NativeEndian.Uint64(b); found != id {
		return c.damaged(id, "it says that it is page %d", found)
	}
	if overflow := uint64(binary.NativeEndian.Uint32(b[12:])); overflow > 0 {
		if id+overflow >= c.end {
			return c.damaged(id, "it continues beyond the end of the file")
		}
		b = make([]byte, (overflow+1)*c.size)
		if _, err := c.file.ReadAt(b, int64(id*c.size)); err != nil {
			return c.damaged(id, "it cannot be read (%v)", err)
		}
	}
	return c.content(id, b, bucket, least)
}

// content checks the elements of a page, or of a bucket that is so small that it is a
// value of another one.
func (c *pageCheck) content(id uint64, b []byte, bucket string, least []byte) error {
	flags, count := binary.NativeEndian.Uint16(b[8:]), int(binary.NativeEndian.Uint16(b[10:]))
	if flags != branchPage && flags != leafPage {
		return c.damaged(id, "it is neither a branch nor a leaf")
	}
	if pageHeader+count*element > len(b) {
		return c.damaged(id, "it has no room for its %d elements", count)
	}
	for i := range count {
		offset := pageHeader + i*element
		key, value, err := c.element(id, b, offset, flags)
		if err != nil {
			return err
		}
		if bytes.Compare(key, least) < 0 || i > 0 && bytes.Equal(key, least) {
			return c.damaged(id, "its keys are not in order")
		}
		least = key
		switch {
		case flags == branchPage:
			err = c.page(binary.NativeEndian.Uint64(b[offset+8:]), bucket, key)
		case binary.NativeEndian.Uint32(b[offset:])&bucketElement != 0:
			err = c.bucket(id, value, string(key))
		case c.found != nil:
			err = c.found(bucket, key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// element returns the key of the element at an offset, and the value if it is one of a
// leaf.
func (c *pageCheck) element(id uint64, b []byte, offset int, flags uint16) (key, value []byte, err error) {
	e := b[offset:]
	position, keySize, valueSize := binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:]), uint32(0)
	if flags == leafPage {
		position, keySize, valueSize = binary.NativeEndian.Uint32(e[4:]), binary.NativeEndian.Uint32(e[8:]), binary.NativeEndian.Uint32(e[12:])
	}
	begin := uint64(offset) + uint64(position)
	if begin+uint64(keySize)+uint64(valueSize) > uint64(len(b)) {
		return nil, nil, c.damaged(id, "an element does not lie within it")
	}
	middle := begin + uint64(keySize)
	return b[begin:middle], b[middle : middle+uint64(valueSize)], nil
}

// bucket checks a bucket, whose header has its root page, 0 if it follows the header.
func (c *pageCheck) bucket(id uint64, header []byte, name string) error {
	if len(header) < bucketHeader {
		return c.damaged(id, "the bucket %q has no header", name)
	}
	if root := binary.NativeEndian.Uint64(header); root != 0 {
		return c.page(root, name, nil)
	}
	if len(header) < bucketHeader+pageHeader {
		return c.damaged(id, "the bucket %q has no page", name)
	}
	return c.content(id, header[bucketHeader:], name, nil)
}
