package finished

import (
	"reflect"
	"strings"
	"testing"
)

func value() Value {
	return Value{
		Binding: Binding{Continuation: `"7"`, Epoch: 3, Mode: "latest", Filter: "ab"},
		Reached: 1000, RetryAt: 99,
		Marks: map[uint64]int64{1: 8, 1 << 39: 1000},
	}
}

func TestValueIsReadAsItWasWritten(t *testing.T) {
	want := value()
	got, ok := Parse(want.Encode())
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: got %+v, want %+v", ok, got, want)
	}
}

func TestUnreadableValueIsVoid(t *testing.T) {
	good := value().Encode()
	tooMany := map[uint64]int64{}
	for i := range uint64(MaxMarks + 1) {
		tooMany[i] = 1
	}
	for name, property := range map[string]string{
		"empty":          "",
		"no JSON":        "x",
		"other version":  strings.Replace(good, `"v":1`, `"v":2`, 1),
		"no position":    `{"v":1,"to":0}`,
		"short mark":     `{"v":1,"to":9,"marks":"AAAA"}`,
		"no base64":      `{"v":1,"to":9,"marks":"*"}`,
		"negative mark":  `{"v":1,"to":9,"marks":"AAAAAAEK"}`,
		"not sorted":     `{"v":1,"to":9,"marks":"AAAAAAIIAAAAAAEI"}`,
		"key twice":      `{"v":1,"to":9,"marks":"AAAAAAEIAAAAAAEI"}`,
		"too many marks": Value{Reached: 9, Marks: tooMany}.Encode(),
	} {
		if v, ok := Parse(property); ok {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestFinished(t *testing.T) {
	v := value()
	for _, test := range []struct {
		key  uint64
		lsn  int64
		want bool
	}{
		{key: 5, lsn: 8, want: true}, {key: 5, lsn: 1000, want: true}, {key: 5, lsn: 1001},
		{key: 1, lsn: 7, want: true}, {key: 1, lsn: 8}, {key: 1, lsn: 9},
		{key: 1 << 39, lsn: 999, want: true}, {key: 1 << 39, lsn: 1000},
	} {
		if got := v.Finished(test.key, test.lsn); got != test.want {
			t.Errorf("key %d, LSN %d: %v", test.key, test.lsn, got)
		}
	}
}

func TestRebind(t *testing.T) {
	property := value().Encode()
	if v, ok := Parse(Rebind(property, `"7"`, 3, 4)); !ok || v.Epoch != 4 || len(v.Marks) != 2 {
		t.Errorf("%v %+v", ok, v)
	}
	for _, void := range []string{Rebind(property, `"8"`, 3, 4), Rebind(property, `"7"`, 2, 4), Rebind("x", `"7"`, 3, 4), Rebind("", "", 0, 1)} {
		if void != "" {
			t.Errorf("not void: %s", void)
		}
	}
}

// A mark takes about 14 bytes, so that 64 of them do not weigh on the lease.
func TestMarksAreSmall(t *testing.T) {
	v := Value{Reached: 5_000_000_000, Marks: map[uint64]int64{}}
	for i := range MaxMarks {
		v.Marks[uint64(i)<<30] = v.Reached - 1_000_000
	}
	if size := len(v.Encode()) - len(Value{Reached: v.Reached}.Encode()); size > MaxMarks*14 {
		t.Errorf("%d bytes", size)
	}
}
