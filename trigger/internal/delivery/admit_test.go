package delivery

import "testing"

func TestAdmit(t *testing.T) {
	for name, test := range map[string]struct {
		state KeyState
		want  Admission
	}{
		"a free key":    {KeyState{}, AdmitDeliver},
		"a waiting key": {KeyState{Waits: true}, AdmitQueue},
		"a waiting key, behind postponed changes":      {KeyState{Waits: true, Place: PlaceBehind}, AdmitQueue},
		"a postponed change that the feed shows again": {KeyState{Place: PlaceListed}, AdmitFinish},
		"the same while its key waits":                 {KeyState{Waits: true, Place: PlaceListed}, AdmitFinish},
		"between postponed changes":                    {KeyState{Place: PlaceInside}, AdmitPostpone},
		"behind postponed changes":                     {KeyState{Place: PlaceBehind}, AdmitPostpone},
		"behind postponed changes that are due soon":   {KeyState{Place: PlaceBehind, DueSoon: true}, AdmitQueue},
		"before postponed changes that are due soon":   {KeyState{DueSoon: true}, AdmitDeliver},
		"perhaps behind a dead letter":                 {KeyState{Block: BlockPossible}, AdmitAsk},
		"behind a dead letter":                         {KeyState{Block: BlockCertain}, AdmitBlock},
		"behind a dead letter of a waiting key":        {KeyState{Waits: true, Block: BlockCertain}, AdmitQueue},
		"behind a dead letter and a postponed change":  {KeyState{Place: PlaceBehind, Block: BlockCertain}, AdmitPostpone},
	} {
		if got := Admit(test.state); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func (a Admission) String() string {
	return [...]string{"deliver", "finish", "queue", "postpone", "ask", "block"}[a]
}
