package cosmos

import "encoding/binary"

// marks tell for about 1,000 bytes of a text which of them are not plain. A plain byte means itself
// in a string: it is ASCII and neither a quote, a backslash nor a control character. Most bytes of a
// page are in strings, and most strings are short, so that one look at marks that are set in advance
// finds the end of a string faster than a loop over its bytes does. They are a part of the structural
// index in "Parsing Gigabytes of JSON per Second" (Langdale and Lemire, 2019).
//
// The end of the text has a mark, too.
type marks struct {
	bits  [8 * markedBlocks]byte // a bit for each byte from first on, the lowest first
	first int                    // a multiple of 64
	ahead int                    // blocks that the next call of mark marks; it doubles up to all
}

// markedBlocks is the number of blocks of 64 bytes that have marks. The last one is there for
// strings that begin in the block before.
const markedBlocks = 17

// newText returns a text that will be read to its end.
func newText(b []byte) text {
	return text{b, marks{first: -64 * markedBlocks, ahead: markedBlocks - 1}}
}

// newBeginning returns a text of which the reader may need the beginning only.
func newBeginning(b []byte) text { return text{b, marks{first: -64 * markedBlocks, ahead: 1}} }

// has reports whether byte i and the 64 that follow have marks.
func (m *marks) has(i int) bool { return uint(i-m.first) < 64*(markedBlocks-1) }

// marksFrom returns the marks of byte i and of 56 others at least, the lowest first. It is 0 if
// they have none.
func (m *marks) marksFrom(i int) (found uint64) {
	if m.has(i) {
		found = binary.LittleEndian.Uint64(m.bits[uint(i-m.first)/8:]) >> (uint(i) % 8)
	}
	return found
}

// mark sets the marks from byte i on. There are no more questions about earlier bytes, and
// fewer marks than there is room for are at its end, so that has knows where they end.
func (m *marks) mark(b []byte, i int) {
	skipped := markedBlocks - 1 - m.ahead
	m.ahead = min(2*m.ahead, markedBlocks-1)
	from := i &^ 63
	m.first = from - 64*skipped
	n := min((len(b)-from)/64, markedBlocks-skipped)
	rest := from + 64*n
	markBlocks(b[from:rest], m.bits[8*skipped:])
	if skipped+n < markedBlocks {
		var last [64]byte // of control characters, of which the first is the end
		copy(last[:], b[rest:])
		markWords(last[:], m.bits[8*(skipped+n):])
	}
}

// markWords sets the marks of the blocks of b, eight bytes at a time.
func markWords(b, bits []byte) {
	for len(b) >= 64 && len(bits) >= 8 {
		low := wordMarks(b[0:8]) | wordMarks(b[8:16])<<8 | wordMarks(b[16:24])<<16 | wordMarks(b[24:32])<<24
		high := wordMarks(b[32:40]) | wordMarks(b[40:48])<<8 | wordMarks(b[48:56])<<16 | wordMarks(b[56:64])<<24
		binary.LittleEndian.PutUint64(bits, low|high<<32)
		b, bits = b[64:], bits[8:]
	}
}

// wordMarks returns the marks of eight bytes. As in Bit Twiddling Hacks ("has a byte less than n"),
// a subtraction from all bytes shows in their high bits which of them are smaller. These are set
// before, so that no byte borrows from the next. The exclusive or maps a quote to the byte after the
// control characters, and a backslash to 0.
func wordMarks(b []byte) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	w := binary.LittleEndian.Uint64(b)
	control, backslash := (w^each*2|high)-each*(' '+1), (w^each*'\\'|high)-each
	found := (^(control & backslash) | w) & high
	return found >> 7 * 0x0102040810204080 >> 56 // the high bits of all bytes, side by side
}
