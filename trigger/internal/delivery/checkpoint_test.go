package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each case is a history of progress, "time after the start in ms:last change", and the
// times of the saves that the schedule asks for; "-" asks for none.
func TestCheckpointSchedule(t *testing.T) {
	const interval = 200 * time.Millisecond
	for _, test := range []struct {
		name, progress, want string
		setting              Checkpoint
	}{
		{"each batch", "0:1 1:2 2:2 3:5", "0 1 - 3", Checkpoint{Interval: -1}},
		{"at once after a pause", "250:1 600:2", "250 600", Checkpoint{Interval: interval}},
		{"soon after a save, planned", "250:1 260:2 300:3 449:4 460:5", "250 450 450 450 650", Checkpoint{Interval: interval}},
		{"at once after a planned save and a pause", "250:1 260:2 660:3", "250 450 660", Checkpoint{Interval: interval}},
		{"no save without progress", "250:1 260:1 700:1", "250 - -", Checkpoint{Interval: interval}},
		{"every 10 changes", "1:9 2:10 3:19 4:20 900:29", "- 2 - 4 -", Checkpoint{Every: 10}},
		{"every 10 changes or by the interval", "250:1 260:11 270:12 300:21", "250 260 460 300", Checkpoint{Every: 10, Interval: interval}},
		{"a planned save counts for every 10", "250:1 260:5 470:12 480:15", "250 450 650 480", Checkpoint{Every: 10, Interval: interval}},
	} {
		start := time.Now()
		s := checkpointSchedule{setting: test.setting, savedAt: start}
		var got []string
		for step := range strings.FieldsSeq(test.progress) {
			var moment time.Duration
			var seq int64
			if _, err := fmt.Sscanf(step, "%d:%d", &moment, &seq); err != nil {
				t.Fatal(err)
			}
			due := s.nextSave(seq, start.Add(moment*time.Millisecond))
			if due.IsZero() {
				got = append(got, "-")
				continue
			}
			got = append(got, fmt.Sprint(due.Sub(start).Milliseconds()))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: saves at %s, want %s", test.name, got, test.want)
		}
	}
}
