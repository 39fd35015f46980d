//go:build !nodev

package dev

import (
	"errors"
	"fmt"
	"net"
	"time"

	"halley/function/app/internal/operatorpage"
	"halley/handlers"
)

// defaultAddr is the address of the account, where all local emulators are expected.
const defaultAddr = "127.0.0.1:8081"

const (
	maxHosts = 64
	maxRate  = 100_000
)

// runFlags are the flags of the command dev.
type runFlags struct {
	For        time.Duration // 0: until a signal
	Addr       string        // of the account; "" is defaultAddr, or another if that is taken
	Data       string        // directory of the account; "": memory
	Seeds      []string      // files of documents; nil: those of seedDir
	Watch      bool
	Rate       int           // documents that the app's load writes per second
	SplitAfter time.Duration // 0: no split
	Hosts      int
	Poison     int // one in so many documents; 0: none
	JSON       bool
	Page       string // address, on or off; "": on, on a terminal
	Letters    string // file of dead letters; "": none
}

// Values of --page that are no address.
const (
	pageOn  = "on"
	pageOff = "off"
)

func (o runFlags) check() error {
	switch {
	case o.For < 0:
		return fmt.Errorf("--for %v: must not be negative", o.For)
	case o.Rate < 1 || o.Rate > maxRate:
		return fmt.Errorf("--rate %d: write 1 to %d documents per second", o.Rate, maxRate)
	case o.SplitAfter < 0:
		return fmt.Errorf("--split-after %v: must not be negative", o.SplitAfter)
	case o.For > 0 && o.SplitAfter >= o.For:
		return fmt.Errorf("--split-after %v: must be less than --for %v", o.SplitAfter, o.For)
	case o.Hosts < 1 || o.Hosts > maxHosts:
		return fmt.Errorf("--hosts %d: run 1 to %d hosts", o.Hosts, maxHosts)
	case o.Poison < 0:
		return fmt.Errorf("--poison %d: must not be negative", o.Poison)
	}
	if err := o.checkWatch(); err != nil {
		return err
	}
	return o.checkPage()
}

// checkWatch refuses flags that need the handlers in this process.
func (o runFlags) checkWatch() error {
	switch {
	case !o.Watch:
		return nil
	case o.Hosts > 1:
		return errors.New("--hosts with --watch: watched handlers run in one process; leave out one of the flags")
	case o.Poison > 0:
		return errors.New("--poison with --watch: watched handlers run in another process, which dev does not change; leave out one of the flags")
	case o.Letters != "":
		return errors.New("--dead-letters with --watch: watched handlers run in another process, which dev does not call; leave out one of the flags")
	}
	return nil
}

// checkPage refuses addresses that other machines can reach.
func (o runFlags) checkPage() error {
	switch {
	case o.Page == "", o.Page == pageOn, o.Page == pageOff:
		return nil
	}
	if _, _, err := net.SplitHostPort(o.Page); err != nil {
		return fmt.Errorf("--page %s: write an address such as %s, or off: %w", o.Page, operatorpage.DefaultAddr, err)
	}
	if !handlers.IsLoopback(o.Page) {
		return fmt.Errorf("--page %s can be reached by other machines, and the page shows documents: listen on 127.0.0.1", o.Page)
	}
	return nil
}
