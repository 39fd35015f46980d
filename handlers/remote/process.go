package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"go.uber.org/zap"
)

// launch says how a command is started and how it speaks.
type launch struct {
	program string
	args    []string
	channel bool          // it speaks on a channel of its own, see openChannel; otherwise on its standard input and output
	timeout time.Duration // of a call; 0 leaves it to the context
	grace   time.Duration // to answer a call that is cancelled, and to exit when its input has ended
	log     *zap.Logger
}

// process is one running command. One goroutine, which [startProcess] begins, waits for
// its exit; exec's own goroutines and that of the channel copy its output, and have ended
// when exited is closed.
type process struct {
	launch
	command   *exec.Cmd
	requests  io.WriteCloser
	answers   chan []byte   // lines that answer; more than maxUnread are lost
	ready     chan struct{} // closed when it may be called
	lastLines lineTail      // of standard error, of the call that runs
	exited    chan struct{}
	exitErr   error // of Wait; set when exited is closed
}

// outputDelay is for output of children that the process leaves behind.
const outputDelay = time.Second

func startProcess(how launch) (*process, error) {
	p := &process{
		launch: how, command: exec.Command(how.program, how.args...),
		answers: make(chan []byte, maxUnread), ready: make(chan struct{}), exited: make(chan struct{}),
	}
	ownGroup(p.command)
	p.command.WaitDelay = outputDelay
	p.command.Stderr = p.logged("stderr")
	open := p.openStandard
	if how.channel {
		open = p.openChannel
	}
	started, err := open()
	if err != nil {
		return nil, err
	}
	err = p.command.Start()
	wait := started(err)
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		p.exitErr = p.command.Wait()
		killGroup(p.command) // its children must not work on what another process gets next
		wait()
	}()
	return p, nil
}

// openStandard has the command speak on its standard input and output. It returns a
// function that is called after the start with its error; that returns one that waits for
// the last answers.
func (p *process) openStandard() (started func(error) (wait func()), err error) {
	p.command.Stdout = &lineWriter{most: maxAnswer, line: p.answered}
	p.requests, err = p.command.StdinPipe()
	close(p.ready)
	return func(error) func() { return func() {} }, err
}

// maxUnread is the number of lines that are kept until they are read. There is one for
// each call, if the command keeps the protocol.
const maxUnread = 2

func (p *process) answered(line []byte) {
	select {
	case p.answers <- line:
	default:
	}
}

// maxReady is the time in which a command on a channel says that it is ready.
const maxReady = time.Minute

// waitUntilReady returns when the process may be called, or has been ended.
func (p *process) waitUntilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxReady, fmt.Errorf("it is not ready after %v", maxReady))
	defer cancel()
	select {
	case <-p.ready:
		return nil
	case <-p.exited:
		return p.exit()
	case line := <-p.answers:
		p.kill()
		<-p.exited
		return fmt.Errorf("it must say {\"ready\":%d} first, and says: %s", channelVersion, shorten(string(line)))
	case <-ctx.Done():
		p.kill()
		<-p.exited
		return p.lastLines.explain(context.Cause(ctx))
	}
}

// call sends a request and returns the line that answers it. If it returns an error, the
// state of the process is not known, and the caller kills it. When the context ends,
// the process is interrupted: nothing else ends a write that the process does not read.
//
// An answer has the number of its call. Otherwise a line that the command writes for
// another reason, or twice, would count as the answer to a call that it has not handled.
func (p *process) call(ctx context.Context, number int64, request []byte) (answer, error) {
	p.lastLines.clear()
	answered, killed := make(chan struct{}), make(chan bool, 1)
	stopWatching := context.AfterFunc(ctx, func() { killed <- p.interrupt(ctx, number, answered) })
	line, err := p.exchange(request)
	close(answered)
	if !stopWatching() && <-killed {
		return answer{}, p.lastLines.explain(context.Cause(ctx))
	}
	if err != nil {
		return answer{}, err
	}
	if len(line) > maxAnswer {
		return answer{}, malformed("its line has more than %d bytes", maxAnswer)
	}
	a, err := decodeAnswer(number, line)
	if err == nil && a.Call == 0 {
		err = malformed("it has no call: a command answers with the number of the call, {\"call\":%d}: %s", number, shorten(string(line)))
	}
	return a, err
}

// interrupt ends a call whose context has ended, and reports whether it has killed the
// process. A function on a channel knows its deadline. It is told of another end, and may
// answer within the grace, such as one that keeps what it has done.
func (p *process) interrupt(ctx context.Context, number int64, answered <-chan struct{}) (killed bool) {
	if !p.channel || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		p.kill()
		return true
	}
	lastMoment := time.AfterFunc(p.grace, p.kill)
	fmt.Fprintf(p.requests, "{\"cancel\":%d}\n", number) // an error means that it exits
	<-answered
	return !lastMoment.Stop()
}

// exchange writes a request and reads a line.
func (p *process) exchange(request []byte) ([]byte, error) {
	if _, err := p.requests.Write(request); err != nil {
		if !p.exitsSoon() {
			return nil, fmt.Errorf("write the request: %w", err)
		}
		return nil, p.exit()
	}
	select {
	case line := <-p.answers:
		return line, nil
	case <-p.exited:
	}
	select { // it may have exited after its answer
	case line := <-p.answers:
		return line, nil
	default:
		return nil, p.exit()
	}
}

// exitsSoon reports whether the process exits: its input breaks a moment before.
func (p *process) exitsSoon() bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(2 * outputDelay):
		return false
	}
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// exit returns how the process has ended, with its last lines: they tell the reason. It is
// called when exited is closed.
func (p *process) exit() error {
	err := errors.New("the command exited with status 0")
	if p.exitErr != nil {
		err = fmt.Errorf("the command exited: %w", p.exitErr)
	}
	return p.lastLines.explain(err)
}

// kill ends the process at once, with the children in its group. Closing its input ends a
// write that is under way.
func (p *process) kill() {
	_ = p.requests.Close()
	if !p.hasExited() {
		killGroup(p.command)
	}
}

// end closes the input, and kills the process if it has not exited within the grace.
func (p *process) end() {
	_ = p.requests.Close()
	select {
	case <-p.exited:
	case <-time.After(p.grace):
		p.kill()
		<-p.exited
	}
}
