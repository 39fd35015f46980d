package deadletter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"halley/trigger/deadletter/internal/record"
)

// frames returns the content of a file with dead letters of the given IDs.
func frames(t testing.TB, ids ...string) []byte {
	t.Helper()
	b, err := appendFrame(nil, frameFile, []byte("NAME"))
	must(t, err)
	for _, id := range ids {
		payload, err := record.Encode(letter("f", id))
		must(t, err)
		b, err = appendFrame(b, frameDeadLetter, payload)
		must(t, err)
	}
	return b
}

// scanned returns the result of scanFrames: the IDs of the dead letters, in
// order, and the number of damaged parts.
func scanned(t testing.TB, file []byte) (ids []string, damaged int) {
	t.Helper()
	covered := int64(0)
	err := scanFrames(bytes.NewReader(file), 0, int64(len(file)), func(f frame) {
		if f.at < covered || f.end <= f.at {
			t.Fatalf("frame %d to %d after %d", f.at, f.end, covered)
		}
		covered = f.end
		rewritten, err := appendFrame(nil, f.kind, f.payload)
		must(t, err)
		if n := len(rewritten) - 1; string(file[f.at:f.at+int64(n)]) != string(rewritten[:n]) || f.end-f.at > int64(n+1) {
			t.Fatalf("frame at %d is not as it would be written", f.at)
		}
		if f.kind != frameDeadLetter {
			return
		}
		if l, err := record.Decode(f.payload); err == nil {
			ids = append(ids, l.ID)
		}
	}, func(s span) {
		if s.at < covered || s.end <= s.at || s.end > int64(len(file)) {
			t.Fatalf("damage %d to %d after %d", s.at, s.end, covered)
		}
		covered = s.end
		damaged++
	})
	must(t, err)
	if strings.Trim(string(file[covered:]), "\n") != "" {
		t.Fatalf("the last %d bytes are neither", int64(len(file))-covered)
	}
	return ids, damaged
}

func TestFrameLayout(t *testing.T) {
	b, err := appendFrame(nil, frameDeleted, []byte(`"a"`))
	must(t, err)
	if want := "D 00000003 "; !strings.HasPrefix(string(b), want) || !strings.HasSuffix(string(b), " \"a\"\n") || len(b) != frameHead+3+1 {
		t.Errorf("frame %q, want %q and a checksum", b, want)
	}
	if _, err := appendFrame(nil, frameDeadLetter, make([]byte, maxFrame+1)); err == nil {
		t.Error("a frame larger than any that is read was written")
	}
}

// A flipped bit damages at most its own frame, even if it creates or removes an
// end of line.
func TestFlippedBitDamagesOneFrame(t *testing.T) {
	file := frames(t, "a", "b", "c")
	ends := []int{0}
	for i, c := range file {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	for bit := range len(file) * 8 {
		flipped := bytes.Clone(file)
		flipped[bit/8] ^= 1 << (bit % 8)
		ids, damaged := scanned(t, flipped)
		endOfLine := file[bit/8] == '\n'
		hit := 0
		for ends[hit+1] <= bit/8 {
			hit++
		}
		var want []string
		for i, id := range []string{"", "a", "b", "c"} {
			if id != "" && (i != hit || endOfLine) {
				want = append(want, id)
			}
		}
		if fmt.Sprint(ids) != fmt.Sprint(want) || (damaged == 0) != endOfLine {
			t.Fatalf("bit %d: dead letters %v, want %v; %d damaged", bit, ids, want, damaged)
		}
	}
}

// After a crash in the last frame, the other frames are found and the last one
// is not, with or without later appends.
func TestTornTailKeepsOtherFrames(t *testing.T) {
	file := frames(t, "a", "b")
	suffix := frames(t, "c")[len(frames(t)):]
	for offset := len(frames(t, "a")) + 1; offset < len(file)-1; offset++ {
		for _, tail := range [][]byte{nil, make([]byte, len(file)-offset), []byte("\xff\xff")} {
			torn := append(bytes.Clone(file[:offset]), tail...)
			ids, damaged := scanned(t, torn)
			if fmt.Sprint(ids) != "[a]" || damaged != 1 {
				t.Fatalf("torn at %d: dead letters %v, %d damaged", offset, ids, damaged)
			}
			ids, damaged = scanned(t, append(append(torn, '\n'), suffix...))
			if fmt.Sprint(ids) != "[a c]" || damaged != 1 {
				t.Fatalf("torn at %d and appended to: dead letters %v, %d damaged", offset, ids, damaged)
			}
		}
	}
}

// A document that contains the text of a frame is not read as a dead letter,
// even if the frame around it is damaged.
func TestFrameTextInDocumentIsNotAFrame(t *testing.T) {
	forged := frames(t, "forged")
	d := letter("f", "outer")
	d.Document = append([]byte("x\n"), forged...)
	payload, err := record.Encode(d)
	must(t, err)
	file, err := appendFrame(frames(t, "a"), frameDeadLetter, payload)
	must(t, err)
	file[len(frames(t, "a"))+5] ^= 1
	ids, damaged := scanned(t, append(file, frames(t, "b")...))
	if fmt.Sprint(ids) != "[a b]" || damaged != 1 {
		t.Errorf("dead letters %v, %d damaged", ids, damaged)
	}
}

// FuzzFrames reads files of any content: the frames found must equal those that
// appendFrame writes, frames and damage must cover the file, and a dead letter
// that is appended must be found.
func FuzzFrames(f *testing.F) {
	file := frames(f, "a", "b")
	f.Add([]byte(""))
	f.Add([]byte("\n"))
	f.Add(file)
	f.Add(file[:len(file)-7])
	f.Add(bytes.Replace(file, []byte("\n"), []byte("J"), 1))
	f.Add(append(bytes.Clone(file), make([]byte, 100)...))
	f.Add([]byte("L ffffffff 00000000 {}\nD 00000000 00000000 \n"))
	f.Add([]byte("L 00000010 00000000 short"))
	f.Fuzz(func(t *testing.T, file []byte) {
		oldFrames, _ := scanned(t, file)
		newFrames, _ := scanned(t, append(append(bytes.Clone(file), '\n'), frames(t, "appended")...))
		if len(newFrames) != len(oldFrames)+1 || newFrames[len(oldFrames)] != "appended" {
			t.Fatalf("letters %q, then with one more %q", oldFrames, newFrames)
		}
	})
}
