package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/handlers"
)

// commandPool is a function that a command serves. It has up to a number of processes,
// which the calls start. A process that fails is ended, and the next call starts another
// one after a backoff.
type commandPool struct {
	launch
	places chan *place // those without a call
}

// place is one process of a pool, and its history. The call that has taken it from the
// pool owns it.
type place struct {
	process   *process // nil if none runs
	request   []byte   // the last one, whose bytes are used again
	failures  int      // in a row
	notBefore time.Time
}

// newCommandPool fills in the program and the arguments of how.
func newCommandPool(command string, processes handlers.Count, how launch) (*commandPool, error) {
	words, err := splitCommand(command)
	if err != nil {
		return nil, err
	}
	how.args = words[1:]
	if how.program, err = exec.LookPath(words[0]); err != nil {
		return nil, fmt.Errorf("COMMAND cannot be started: %w; install it, or write the path of the program", err)
	}
	p := &commandPool{launch: how, places: make(chan *place, processes)}
	for range processes {
		p.places <- &place{}
	}
	return p, nil
}

// splitCommand returns the program and its arguments.
func splitCommand(command string) ([]string, error) {
	words := strings.Fields(command)
	if strings.HasPrefix(strings.TrimSpace(command), "[") {
		words = nil
		if err := json.Unmarshal([]byte(command), &words); err != nil {
			return nil, errors.New(`COMMAND is not a JSON array of strings; write for example ["python3", "orders.py"]`)
		}
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("COMMAND has no program; write for example python3 orders.py")
	}
	return words, nil
}

// String is the program without its arguments, which may hold secrets.
func (p *commandPool) String() string { return p.program }

func (p *commandPool) call(ctx context.Context, c call) (answer, error) {
	slot, err := p.take(ctx)
	if err != nil {
		return answer{}, err
	}
	defer func() { p.places <- slot }()
	if err := p.start(ctx, slot); err != nil {
		return answer{}, err
	}
	answering, cancel := answerWithin(ctx, p.timeout)
	defer cancel()
	request, err := c.appendTo(answering, slot.request[:0])
	if err != nil {
		return answer{}, err
	}
	if slot.request = nil; cap(request) <= maxKept {
		slot.request = request
	}
	a, err := slot.process.call(answering, c.number, request)
	if err != nil {
		slot.process.kill()
		<-slot.process.exited
		if ctx.Err() == nil {
			slot.fail()
		} else {
			slot.process = nil // the call was ended, which is no fault of the process
		}
		return answer{}, err
	}
	slot.failures = 0
	return a, nil
}

// maxKept is the size of the largest request whose bytes are used again. A page of the feed
// has at most half of it.
const maxKept = 8 << 20

// take waits for a place without a call.
func (p *commandPool) take(ctx context.Context) (*place, error) {
	select {
	case slot := <-p.places:
		return slot, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a process: %w", context.Cause(ctx))
	}
}

// startOne starts a process before the first call, so that a command that cannot work is
// refused when the app starts.
func (p *commandPool) startOne(ctx context.Context) error {
	slot, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer func() { p.places <- slot }()
	return p.start(ctx, slot)
}

// Bounds of the backoff between two starts.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// fail notes that the process is gone.
func (slot *place) fail() {
	slot.process = nil
	slot.notBefore = time.Now().Add(min(minBackoff<<min(slot.failures, 10), maxBackoff))
	slot.failures++
}

// start makes sure that a process runs. One that has exited between two calls is replaced.
func (p *commandPool) start(ctx context.Context, slot *place) error {
	if slot.process != nil && slot.process.hasExited() {
		p.log.Warn("command exited without a call", zap.String("program", p.program), zap.Error(slot.process.exit()))
		slot.fail()
	}
	if slot.process != nil {
		return nil
	}
	if err := sleep(ctx, time.Until(slot.notBefore)); err != nil {
		return fmt.Errorf("start it again: %w", err)
	}
	started, err := startProcess(p.launch)
	if err == nil {
		err = started.waitUntilReady(ctx)
	}
	if err != nil {
		slot.fail()
		return fmt.Errorf("start it: %w", err)
	}
	slot.process = started
	return nil
}

// close ends all processes in good order.
func (p *commandPool) close() error {
	var ends sync.WaitGroup
	for range cap(p.places) {
		slot := <-p.places
		if slot.process != nil {
			ends.Go(slot.process.end)
		}
	}
	ends.Wait()
	return nil
}
