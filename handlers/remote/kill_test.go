//go:build unix

package remote

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

var (
	killsFlag = flag.Int("kills", 0, "processes of each language that TestKilledFunctionsLoseNothing kills; 0: 20 in the long form, else 3")
	killSeed  = flag.Uint64("kill-seed", 1, "of the kills")
)

// Processes of a function are killed with -9 in the middle of changes, under load. Each
// change is handled, those of a key in their order, and a key is never in two processes: a
// process that is killed has written its last line before another one gets its key.
func TestKilledFunctionsLoseNothing(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		journal := filepath.Join(t.TempDir(), "journal")
		kills := *killsFlag
		if kills == 0 {
			kills = handlerstest.ShortOrLong(3, 20)
		}
		k := newKiller(t, kills)
		command := append([]string{"env", "JOURNAL=" + journal, "KILLER=" + k.port()}, l.functionCommand(t, "kill")...)
		w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/key", Ranges: 4, Function: trigger.Function{
			BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 10}, GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: -1},
		}})
		handle := handlerstest.Under(t, functionEntry(t, FunctionSettings{Processes: 3}, command...), handlers.Env{})
		host := w.Host(handle)
		const keys, perRound = 12, 5
		written := 0
		for rounds := 0; k.left() > 0 || rounds == 0; rounds++ {
			for range perRound {
				written++
				for key := range keys {
					w.Put(map[string]any{"id": fmt.Sprintf("%d-%d", key, written), "key": fmt.Sprint("k", key), "number": written})
				}
			}
			if s := host.Drain(); s.Behind > 0 {
				t.Fatalf("the drain has not caught up: %+v", s)
			}
		}
		text, err := os.ReadFile(journal)
		if err != nil {
			t.Fatal(err)
		}
		handled, problems := judgeJournal(string(text))
		for _, problem := range problems {
			t.Error(problem)
		}
		for key := range keys {
			if got := handled[fmt.Sprint("k", key)]; got != written {
				t.Errorf("of key k%d %d of %d changes are handled", key, got, written)
			}
		}
		t.Logf("%d kills, %d changes, %d lines: none lost", kills, written*keys, strings.Count(string(text), "\n"))
	})
}

// killer lets functions go on, or kills them. mu guards the fields below it.
type killer struct {
	listener net.Listener

	mu     sync.Mutex
	random *rand.Rand
	kills  int // that are left
}

func newKiller(t *testing.T, kills int) *killer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &killer{listener: listener, kills: kills, random: rand.New(rand.NewPCG(*killSeed, 0))}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // closed
			}
			serving.Go(func() { k.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait() // the functions have ended
	})
	return k
}

func (k *killer) port() string {
	_, port, _ := net.SplitHostPort(k.listener.Addr().String())
	return port
}

func (k *killer) left() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kills
}

// serve answers each line, which has the number of the process, or kills that process.
func (k *killer) serve(c net.Conn) {
	defer c.Close()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &pid); err == nil && k.wantsKill() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it waits for an answer, so it lives
			continue
		}
		_, _ = io.WriteString(c, ".") // an error means that it is gone
	}
}

func (k *killer) wantsKill() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kills == 0 || k.random.IntN(8) > 0 {
		return false
	}
	k.kills--
	return true
}

// judgeJournal returns the last change of each key up to which all are handled, and each
// line that breaks the order of a key or comes from a process that has lost it.
func judgeJournal(journal string) (handled map[string]int, problems []string) {
	handled = map[string]int{}
	begun := map[string]int{}         // the process that is in a change of a key
	lost := map[string]map[int]bool{} // processes that another one has followed within a change
	for line := range strings.Lines(journal) {
		var phase, key string
		var pid, number int
		if _, err := fmt.Sscan(line, &phase, &pid, &key, &number); err != nil {
			problems = append(problems, fmt.Sprintf("line %q: %v", line, err))
			continue
		}
		if lost[key][pid] {
			problems = append(problems, fmt.Sprintf("%q: another process has had the key since", line))
		}
		switch owner := begun[key]; {
		case phase == "end" && owner == pid:
			begun[key] = 0
			handled[key] = max(handled[key], number)
		case phase == "end":
			problems = append(problems, fmt.Sprintf("%q without its beginning", line))
		default:
			if number > handled[key]+1 {
				problems = append(problems, fmt.Sprintf("%q after change %d", line, handled[key]))
			}
			if owner != 0 && owner != pid {
				if lost[key] == nil {
					lost[key] = map[int]bool{}
				}
				lost[key][owner] = true
			}
			begun[key] = pid
		}
	}
	return handled, problems
}

func TestJournalsAreJudged(t *testing.T) {
	for journal, want := range map[string]int{
		"begin 1 k 1\nend 1 k 1\nbegin 1 k 2\nend 1 k 2\n":                       0,
		"begin 1 k 1\nbegin 2 k 1\nend 2 k 1\n":                                  0, // 1 was killed
		"begin 1 k 1\nbegin 2 k 1\nend 1 k 1\n":                                  2, // 1 was not
		"begin 1 k 1\nend 1 k 1\nbegin 1 k 3\nend 1 k 3\n":                       1, // 2 is missing
		"begin 1 k 1\nend 1 k 1\nbegin 2 k 1\nend 2 k 1\nbegin 1 k 2\nend 1 k 2": 0, // again, in another process
		"begin 1 k 1\nbegin 1 j 1\nend 1 j 1\n":                                  0,
	} {
		if _, problems := judgeJournal(journal); len(problems) != want {
			t.Errorf("%q: problems are %q, want %d", journal, problems, want)
		}
	}
}
