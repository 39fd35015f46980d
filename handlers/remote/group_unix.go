//go:build unix

package remote

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps signals of the terminal from a process, and lets [killGroup] end its
// children.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process and its group. The group may be empty already.
func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
