package deadletter

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"sync"
)

// A file of dead letters is a sequence of frames. Each frame is a line:
//
//	L 0000004f 5d1c9a03 {"id":"…","function":"…",…}
//
// It holds the kind, the length of the payload, and the CRC-32C of kind, length
// and payload, in hex; then the payload, which is JSON and so contains no end
// of line. If an end of line is damaged, the length locates the next frame; if
// a length is damaged, the end of line does.
const (
	frameDeadLetter = 'L' // payload is a dead letter
	frameDeleted    = 'D' // payload is the ID of a deleted dead letter
	frameFile       = 'F' // first frame of a file; payload is its random name
)

const (
	frameHead = len("L 0000004f 5d1c9a03 ")
	maxFrame  = 64 << 20 // of the payload, in bytes; two documents of 2 MB have 24 MB if every character is escaped
)

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// frame is a complete frame; at and end are its bounds in the file.
type frame struct {
	kind    byte
	payload []byte
	at, end int64
}

func appendFrame(dst []byte, kind byte, payload []byte) ([]byte, error) {
	if len(payload) > maxFrame {
		return dst, fmt.Errorf("the dead letter has %d bytes; the limit of a file is %d", len(payload), maxFrame)
	}
	start := len(dst)
	dst = fmt.Appendf(dst, "%c %08x ", kind, len(payload))
	sum := crc32.Update(crc32.Checksum(dst[start:], castagnoli()), castagnoli(), payload)
	dst = fmt.Appendf(dst, "%08x ", sum)
	return append(append(dst, payload...), '\n'), nil
}

var errNoFrame = errors.New("not a complete frame")

// readFrame reads the frame at an offset of a file of the given size. It
// returns errNoFrame if there is none; any other error is an error of the file.
func readFrame(file io.ReaderAt, offset, size int64) (frame, error) {
	var head [frameHead]byte
	if size-offset < int64(len(head)) {
		return frame{}, errNoFrame
	}
	if err := readFull(file, head[:], offset); err != nil {
		return frame{}, err
	}
	kind, length, sum, ok := parseHead(head[:])
	end := offset + int64(frameHead) + length
	if !ok || end > size {
		return frame{}, errNoFrame
	}
	f := frame{kind: kind, payload: make([]byte, length), at: offset, end: end}
	if err := readFull(file, f.payload, offset+int64(frameHead)); err != nil {
		return frame{}, err
	}
	if crc32.Update(crc32.Checksum(head[:len("L 0000004f ")], castagnoli()), castagnoli(), f.payload) != sum {
		return frame{}, errNoFrame
	}
	f.end = min(end+1, size) // includes the end of line, even if it is damaged
	return f, nil
}

// parseHead accepts only heads in the exact format of appendFrame.
func parseHead(head []byte) (kind byte, length int64, sum uint32, ok bool) {
	kind = head[0]
	if kind != frameDeadLetter && kind != frameDeleted && kind != frameFile {
		return 0, 0, 0, false
	}
	if head[1] != ' ' || head[10] != ' ' || head[19] != ' ' || !lowerHex(head[2:10]) || !lowerHex(head[11:19]) {
		return 0, 0, 0, false
	}
	n, _ := strconv.ParseUint(string(head[2:10]), 16, 32) // hex digits
	var s [4]byte
	_, _ = hex.Decode(s[:], head[11:19]) // hex digits
	return kind, int64(n), uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3]), n <= maxFrame
}

func lowerHex(b []byte) bool {
	return bytes.IndexFunc(b, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) < 0
}

// skip returns the offset at which to look for the next frame after damage:
// after the next end of line, or the end of the file.
func skip(file io.ReaderAt, offset, size int64) (int64, error) {
	var b [4096]byte
	for offset < size {
		chunk := b[:min(int64(len(b)), size-offset)]
		if err := readFull(file, chunk, offset); err != nil {
			return 0, err
		}
		if i := bytes.IndexByte(chunk, '\n'); i >= 0 {
			return offset + int64(i) + 1, nil
		}
		offset += int64(len(chunk))
	}
	return size, nil
}

// readFull fills b. If the file has become shorter, it returns an error.
func readFull(file io.ReaderAt, b []byte, offset int64) error {
	if n, err := file.ReadAt(b, offset); n < len(b) {
		return fmt.Errorf("read %d bytes at %d: %w", len(b), offset, err)
	}
	return nil
}

// span is a part of a file, from at to end, in bytes.
type span struct{ at, end int64 }

// scanFrames calls onFrame for each frame from offset at, and onDamage for each
// part between frames. An empty line is neither.
func scanFrames(file io.ReaderAt, offset, size int64, onFrame func(frame), onDamage func(span)) error {
	for offset < size {
		f, err := readFrame(file, offset, size)
		if err == nil {
			onFrame(f)
			offset = f.end
			continue
		}
		if !errors.Is(err, errNoFrame) {
			return err
		}
		next, err := skip(file, offset, size)
		if err != nil {
			return err
		}
		if next-offset > 1 || next == size {
			onDamage(span{offset, next})
		}
		offset = next
	}
	return nil
}
