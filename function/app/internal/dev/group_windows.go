//go:build !nodev

package dev

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C from a process: only this one gets it, and ends the other in
// good order.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
