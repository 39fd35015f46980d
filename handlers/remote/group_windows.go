package remote

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps signals of the terminal from a process.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills the process. It may have exited already.
func killGroup(c *exec.Cmd) { _ = c.Process.Kill() }

// openChannel uses the standard input and output of the command, because a process on
// Windows inherits no other descriptors. The libraries send their output to standard error.
func (p *process) openChannel() (started func(error) (wait func()), err error) {
	p.command.Env = append(os.Environ(), channelVariable+"=0,1")
	p.command.Stdout = &lineWriter{most: maxAnswer, line: p.received}
	p.requests, err = p.command.StdinPipe()
	return func(error) func() { return func() {} }, err
}
