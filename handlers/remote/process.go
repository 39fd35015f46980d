package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"go.uber.org/zap"
)

// process is one running command. One goroutine, which [startProcess] begins, waits for
// its exit; exec's own goroutines copy its output, and have ended when exited is closed.
type process struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	answers chan []byte // lines of standard output; more than maxUnread are lost
	exited  chan struct{}
	exitErr error // of Wait; set when exited is closed
}

// outputDelay is for output of children that the process leaves behind.
const outputDelay = time.Second

func startProcess(program string, args []string, log *zap.Logger) (*process, error) {
	p := &process{command: exec.Command(program, args...), answers: make(chan []byte, maxUnread), exited: make(chan struct{})}
	ownGroup(p.command)
	p.command.WaitDelay = outputDelay
	p.command.Stdout = &lineWriter{most: maxAnswer, line: p.answered}
	p.command.Stderr = &lineWriter{most: maxLogged, line: func(line []byte) {
		log.Info("command wrote to stderr", zap.ByteString("line", line))
	}}
	var err error
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		p.exitErr = p.command.Wait()
	}()
	return p, nil
}

// maxUnread is the number of lines that are kept until they are read. There is one for
// each call, if the command keeps the protocol.
const maxUnread = 2

// maxLogged is the longest line of standard error that is logged; the rest is cut off.
const maxLogged = 8 << 10

func (p *process) answered(line []byte) {
	select {
	case p.answers <- line:
	default:
	}
}

// call sends a request and returns the line that answers it. If it returns an error, the
// state of the process is not known, and the caller kills it. When the context ends,
// call kills it itself: nothing else ends a write that the process does not read.
//
// An answer has the number of its call. Otherwise a line that the command writes for
// another reason, or twice, would count as the answer to a call that it has not handled.
func (p *process) call(ctx context.Context, c call) (answer, error) {
	stopWatching := context.AfterFunc(ctx, p.kill)
	line, err := p.exchange(c.text)
	if !stopWatching() {
		return answer{}, context.Cause(ctx) // the process is being killed
	}
	if err != nil {
		return answer{}, err
	}
	if len(line) > maxAnswer {
		return answer{}, malformed("its line has more than %d bytes", maxAnswer)
	}
	a, err := decodeAnswer(c.number, line)
	if err == nil && a.Call == 0 {
		err = malformed("it has no call: a command answers with the number of the call, {\"call\":%d}: %s", c.number, shorten(string(line)))
	}
	return a, err
}

// exchange writes a request and reads a line.
func (p *process) exchange(request []byte) ([]byte, error) {
	if _, err := p.stdin.Write(request); err != nil {
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
	case <-time.After(outputDelay):
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

// exit returns how the process has ended. It is called when exited is closed.
func (p *process) exit() error {
	if p.exitErr == nil {
		return errors.New("the command exited with status 0")
	}
	return fmt.Errorf("the command exited: %w", p.exitErr)
}

// kill ends the process at once, with the children in its group. Closing its input ends a
// write that is under way.
func (p *process) kill() {
	_ = p.stdin.Close()
	if !p.hasExited() {
		killGroup(p.command)
	}
}

// end closes the input, and kills the process if it has not exited within the grace.
func (p *process) end(grace time.Duration) {
	_ = p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(grace):
		p.kill()
		<-p.exited
	}
}

// lineWriter calls line with each line that is written, without its line break. Of a
// longer line than most it keeps most and one bytes.
type lineWriter struct {
	most int
	line func([]byte)
	rest []byte // of a line that has not ended
}

// Write implements [io.Writer].
func (w *lineWriter) Write(text []byte) (int, error) {
	written := len(text)
	for {
		part, remainder, ended := bytes.Cut(text, []byte("\n"))
		w.rest = append(w.rest, part[:min(len(part), max(w.most+1-len(w.rest), 0))]...)
		if !ended {
			return written, nil
		}
		w.line(bytes.TrimSuffix(w.rest, []byte("\r")))
		w.rest = nil
		text = remainder
	}
}
