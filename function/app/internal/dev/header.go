//go:build !nodev

package dev

import (
	"fmt"
	"strconv"
	"strings"

	"halley/function/app/internal/operatorpage"
	"halley/function/app/internal/text"
)

// printHeader prints the account, the page if there is one, the hosts, the functions,
// and how to end the run.
func (w *runWorld) printHeader(show *screen, flags runFlags, at *operatorpage.Listener) {
	ends := "Ctrl-C ends it"
	if flags.For > 0 {
		ends = fmt.Sprintf("ends after %v, or with Ctrl-C", flags.For)
	}
	show.say(fmt.Sprintf("%s dev: %s", w.program.Name, ends))
	in := "in memory"
	if flags.Data != "" {
		in = "in " + flags.Data
	}
	if flags.Addr == "" && !strings.Contains(w.account.Endpoint(), defaultAddr) {
		in += ", as " + defaultAddr + " is taken"
	}
	line := func(name, value string) {
		show.say(fit(fmt.Sprintf("%-10s %s", name, text.Line(value)), show.columns()))
	}
	line("account", w.account.Endpoint()+" "+in+"; connection string:")
	show.say(w.account.ConnectionString()) // whole, to be copied
	if at != nil {
		show.say(fmt.Sprintf("%-10s %s", "page", at.Address())) // likewise
	}
	owner := w.settings.App.Owner
	switch {
	case flags.Watch:
		line("host", owner+", started again when a file of its source changes")
	case flags.Hosts == 1:
		line("host", owner+"-1")
	default:
		line("hosts", owner+"-1 to "+owner+"-"+strconv.Itoa(flags.Hosts))
	}
	longest := 0
	for _, f := range w.settings.Functions {
		longest = max(longest, len(f.Name))
	}
	for i, f := range w.settings.Functions {
		name := ""
		if i == 0 {
			name = "functions"
		}
		line(name, fmt.Sprintf("%-*s of %s/%s", longest, f.Name, f.DatabaseName, f.ContainerName))
	}
	for i, seed := range w.seeds {
		name := ""
		if i == 0 {
			name = "documents"
		}
		line(name, fmt.Sprintf("%s for %s", seed.path, seed.in.Name()))
	}
	show.say("")
}
