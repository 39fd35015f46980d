package remote

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps signals of the terminal from a process.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills the process. It may have exited already.
func killGroup(c *exec.Cmd) { _ = c.Process.Kill() }
