// Showcase shows the handlers of Halley on an embedded account: each with the server that
// it needs in this process, or with a real one that a setting names.
//
//	go run ./function/showcase dev                      all that need no other server
//	go run ./function/showcase dev --handlers push,fcm  these
//	go run ./function/showcase check --dev              their settings
//	go run -tags natsserver ./function/showcase dev     with a NATS server, too
//
// A load writes game results, the handlers deliver them, and at the end each sink is
// compared with the documents of the account: the last line of each handler says what was
// compared, or the exit code is 1. All flags of the command dev work. A further handler is
// a row in rows.go.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"halley/function/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := show(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// show runs the app with the handlers that the arguments select, and prints the verdicts
// after a development run.
func show(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	names, args := takeFlag(args, "--handlers")
	chosen, err := choose(names)
	if err != nil {
		fmt.Fprintln(stderr, "showcase:", err)
		return 1
	}
	s := &stage{}
	o := app.Options{Name: "showcase", Dev: s.start, Stdout: stdout, Stderr: stderr}
	for _, r := range chosen {
		o.Handlers = append(o.Handlers, r.entry)
		s.rows = append(s.rows, r)
	}
	code := o.Run(ctx, args)
	if slices.Contains(args, "--json") {
		stdout = stderr
	}
	for _, v := range s.verdicts {
		fmt.Fprintln(stdout, v)
		if v.err != nil && code == 0 {
			code = 1
		}
	}
	return code
}

// takeFlag removes a flag from arguments, as "--name value" or "--name=value", and
// returns its last value.
func takeFlag(args []string, name string) (value string, remainder []string) {
	for i := 0; i < len(args); i++ {
		switch given, ok := strings.CutPrefix(args[i], name+"="); {
		case ok:
			value = given
		case args[i] == name && i+1 < len(args):
			i++
			value = args[i]
		default:
			remainder = append(remainder, args[i])
		}
	}
	return value, remainder
}

// choose returns the rows of a list of names, and by default those that need no server.
func choose(names string) (chosen []row, err error) {
	all := rows()
	if names == "" {
		return slices.DeleteFunc(all, func(r row) bool { return r.needs != "" && os.Getenv(r.needs) == "" }), nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(r row) bool { return r.entry.Name == strings.TrimSpace(name) })
		if i < 0 {
			var known []string
			for _, r := range all {
				known = append(known, r.entry.Name)
			}
			return nil, fmt.Errorf("--handlers: no handler is called %q: choose from %s", name, strings.Join(known, ", "))
		}
		if r := all[i]; r.needs != "" && os.Getenv(r.needs) == "" {
			return nil, fmt.Errorf("handler %s needs a real server: set %s%s", r.entry.Name, r.needs, r.otherBuild())
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// otherBuild names the build that needs no real server, if there is one.
func (r row) otherBuild() string {
	if r.tag == "" {
		return ""
	}
	return ", or run with -tags " + r.tag
}
