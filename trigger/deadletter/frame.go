package deadletter

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
)

// A file of letters is a row of frames. Each is a line:
//
//	L 0000004f 5d1c9a03 {"id":"…","function":"…",…}
//
// the kind, the length of the payload and the CRC-32C of kind, length and
// payload, in hex, then the payload, which is JSON and so holds no end of line
// itself. The length finds the next frame even where an end of line is damaged;
// the end of line finds it where the length is.
const (
	frameLetter  = 'L' // payload is a letter
	frameDeleted = 'D' // payload names a letter that is no more
	frameFile    = 'F' // first in a file; payload is its random name
)

const (
	frameHead = len("L 0000004f 5d1c9a03 ")
	maxFrame  = 64 << 20 // bytes of payload; two images of 2 MB in which all is escaped have 24 MB
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is a whole frame in a file.
type frame struct {
	kind    byte
	payload []byte
	at, end int64
}

func appendFrame(dst []byte, kind byte, payload []byte) ([]byte, error) {
	if len(payload) > maxFrame {
		return dst, fmt.Errorf("a letter of %d bytes is more than the %d that a file takes", len(payload), maxFrame)
	}
	at := len(dst)
	dst = fmt.Appendf(dst, "%c %08x ", kind, len(payload))
	sum := crc32.Update(crc32.Checksum(dst[at:], castagnoli), castagnoli, payload)
	dst = fmt.Appendf(dst, "%08x ", sum)
	return append(append(dst, payload...), '\n'), nil
}

var errNoFrame = errors.New("no whole frame")

// readFrame reads the frame at an offset of a file of the given size:
// errNoFrame where there is none, any other error is one of the file.
func readFrame(file io.ReaderAt, at, size int64) (frame, error) {
	var head [frameHead]byte
	if size-at < int64(len(head)) {
		return frame{}, errNoFrame
	}
	if err := readFull(file, head[:], at); err != nil {
		return frame{}, err
	}
	kind, length, sum, ok := parseHead(head[:])
	end := at + int64(frameHead) + length
	if !ok || end > size {
		return frame{}, errNoFrame
	}
	f := frame{kind: kind, payload: make([]byte, length), at: at, end: end}
	if err := readFull(file, f.payload, at+int64(frameHead)); err != nil {
		return frame{}, err
	}
	if crc32.Update(crc32.Checksum(head[:len("L 0000004f ")], castagnoli), castagnoli, f.payload) != sum {
		return frame{}, errNoFrame
	}
	f.end = min(end+1, size) // with its end of line, even a damaged one
	return f, nil
}

// parseHead takes heads only as appendFrame writes them.
func parseHead(head []byte) (kind byte, length int64, sum uint32, ok bool) {
	kind = head[0]
	if kind != frameLetter && kind != frameDeleted && kind != frameFile {
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

// skip finds where to look for the next frame after damage: behind the next
// end of line, or at the end.
func skip(file io.ReaderAt, at, size int64) (int64, error) {
	var b [4096]byte
	for at < size {
		chunk := b[:min(int64(len(b)), size-at)]
		if err := readFull(file, chunk, at); err != nil {
			return 0, err
		}
		if i := bytes.IndexByte(chunk, '\n'); i >= 0 {
			return at + int64(i) + 1, nil
		}
		at += int64(len(chunk))
	}
	return size, nil
}

// readFull fills b; a file that has become shorter is an error.
func readFull(file io.ReaderAt, b []byte, at int64) error {
	if n, err := file.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("read %d bytes at %d: %w", len(b), at, err)
	}
	return nil
}

// stretch is a part of a file.
type stretch struct{ at, end int64 }

// scanFrames calls found with each frame from an offset on, and damaged with
// each stretch between frames. An empty line is neither.
func scanFrames(file io.ReaderAt, at, size int64, found func(frame), damaged func(stretch)) error {
	for at < size {
		f, err := readFrame(file, at, size)
		if err == nil {
			found(f)
			at = f.end
			continue
		}
		if !errors.Is(err, errNoFrame) {
			return err
		}
		next, err := skip(file, at, size)
		if err != nil {
			return err
		}
		if next-at > 1 || next == size {
			damaged(stretch{at, next})
		}
		at = next
	}
	return nil
}
