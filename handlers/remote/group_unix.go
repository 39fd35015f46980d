//go:build unix

package remote

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// ownGroup keeps signals of the terminal from a process, and lets [killGroup] end its
// children.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process and its group. The group may be empty already.
func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }

// openChannel gives the command two descriptors of its own, 3 to read and 4 to write, so
// that its standard output is for the log. Its results are those of openStandard.
func (p *process) openChannel() (started func(error) (wait func()), err error) {
	requests, requestsWriter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	messages, messagesWriter, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, requests.Close(), requestsWriter.Close())
	}
	widen(requestsWriter)
	p.requests = requestsWriter
	p.command.Stdout = p.logged("stdout")
	p.command.ExtraFiles = []*os.File{requests, messagesWriter}
	p.command.Env = append(os.Environ(), channelVariable+"=3,4")
	return func(err error) func() {
		_, _ = requests.Close(), messagesWriter.Close() // the command has copies
		if err != nil {
			_, _ = requestsWriter.Close(), messages.Close()
			return nil
		}
		copied := make(chan struct{})
		go func() {
			defer close(copied)
			_, _ = io.Copy(&lineWriter{most: maxAnswer, line: p.received}, messages) // until the command exits
		}()
		return func() {
			// A child that has left the group may hold the other end.
			_ = messages.SetReadDeadline(time.Now().Add(outputDelay))
			<-copied
			_ = messages.Close()
		}
	}, nil
}
