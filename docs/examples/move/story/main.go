// Story acts out the move from start to cut-over, with the programs that a real one has:
// an account, a shop that is not written in Go and keeps writing, and the app. It ends
// with 0 if no write failed, source and target were equal at the cut-over, and every
// order that the shop has written is in the target.
//
//	go run ./story
//
// Needs Node.js.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"halley/trigger/emulator"
)

const (
	rate     = "200" // orders per second
	database = "shop"
	source   = "orders"
	target   = "orders-by-category"
	limit    = 2 * time.Minute // for the whole story
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, limit)
	err := act(ctx)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "story:", err)
		os.Exit(1)
	}
}

// stage is where the story takes place. The programs end with its context.
type stage struct {
	ctx      context.Context
	dir      string
	app      string // executable of the app
	endpoint string
	began    time.Time
}

func (s *stage) say(format string, args ...any) {
	fmt.Printf("%5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func act(ctx context.Context) (err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	dir, err := os.MkdirTemp("", "move-story")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &stage{ctx: ctx, dir: dir, app: filepath.Join(dir, "move"), began: time.Now()}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.app, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("build the app: %w\n%s", err, out)
	}
	account, err := s.startAccount()
	if err != nil {
		return err
	}
	defer account.end()
	s.say("an account, with containers %s (/customer) and %s (/category)", source, target)
	shop, err := s.startShop()
	if err != nil {
		return err
	}
	defer shop.end()
	if err := s.pass(2 * time.Second); err != nil {
		return err
	}
	before, err := shop.do("state")
	if err != nil {
		return err
	}
	s.say("the shop has written %d orders to %s, and goes on with %s a second", before.Acknowledged, source, rate)
	return s.move(shop)
}

// move copies, switches, and looks at the result.
func (s *stage) move(shop *shop) error {
	migration, err := s.start("run")
	if err != nil {
		return err
	}
	defer migration.end()
	s.say("the migration copies")
	if err := s.pass(5 * time.Second); err != nil {
		return err
	}
	if err := s.await("migrate", "verify", "--settle", "3s"); err != nil {
		return err
	}
	s.say("migrate verify: equal, while the shop writes")
	paused := time.Now()
	if _, err := shop.do("pause"); err != nil {
		return err
	}
	if err := s.await("migrate", "report", "--settle", "0s"); err != nil {
		return err
	}
	compared, err := shop.do("compare " + source + " " + target)
	if err != nil {
		return err
	}
	if len(compared.Different) > 0 {
		return fmt.Errorf("%d orders differ at the cut-over: %q", len(compared.Different), compared.Different)
	}
	switched, err := shop.do("resume " + target + " category")
	if err != nil {
		return err
	}
	s.say("cut-over: %d orders are equal in both containers, also as the shop reads them; for %.1f s %d orders have waited, and none has failed",
		compared.Documents, time.Since(paused).Seconds(), switched.Queued)
	if err := s.pass(2 * time.Second); err != nil {
		return err
	}
	migration.end()
	s.say("the migration is stopped; the shop writes to %s", target)
	last, err := shop.do("stop")
	if err != nil {
		return err
	}
	checked, err := shop.do("check " + target)
	if err != nil {
		return err
	}
	if len(checked.Different) > 0 {
		return fmt.Errorf("%d orders of the shop are not as it wrote them: %q", len(checked.Different), checked.Different)
	}
	s.say("all %d orders in %d writes are in %s as the shop wrote them; the slowest write took %.1f s", last.Acknowledged, last.Placed, target, float64(last.Slowest)/1000)
	return nil
}

// pass waits.
func (s *stage) pass(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// await repeats a command of the app until it succeeds.
func (s *stage) await(args ...string) error {
	last := ""
	for {
		command := exec.CommandContext(s.ctx, s.app, args...)
		command.Env = s.env()
		out, err := command.CombinedOutput()
		if err == nil {
			return nil
		}
		if s.ctx.Err() == nil {
			last = string(out)
		}
		if err := s.pass(200 * time.Millisecond); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, last)
		}
	}
}

// startAccount serves an account in a process of its own.
func (s *stage) startAccount() (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	s.endpoint = "http://" + addr + "/"
	p, err := s.start("emulator", "--addr", addr, "--container", database+"/"+source+":/customer:ranges=3",
		"--container", database+"/"+target+":/category:ranges=2", "--container", database+"/leases:/id")
	if err != nil {
		return nil, err
	}
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return p, conn.Close()
		}
		if err := s.pass(20 * time.Millisecond); err != nil {
			return nil, errors.Join(err, p.end())
		}
	}
}

// env has the settings of the app, with short intervals.
func (s *stage) env() []string {
	return append(os.Environ(),
		"CosmosDB=AccountEndpoint="+s.endpoint+";AccountKey="+emulator.Key+";",
		"HALLEY_DATABASE_NAME="+database, "HALLEY_CONTAINER_NAME="+source, "HALLEY_START_FROM=beginning",
		"HALLEY_FEED_POLL_DELAY=200ms", "HALLEY_LEASE_ACQUIRE_INTERVAL=1s", "HALLEY_LEASE_RENEW_INTERVAL=2s", "HALLEY_LEASE_EXPIRATION_INTERVAL=10s",
		"HALLEY_LOG_LEVEL=error",
		"HALLEY_MIGRATE_TARGET_CONTAINER_NAME="+target, "HALLEY_MIGRATE_REQUEST_UNITS=20000",
	)
}

// process is a program that runs beside the story.
type process struct {
	cmd    *exec.Cmd
	output *strings.Builder
	ended  bool
}

func (s *stage) start(args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(s.ctx, s.app, args...), output: &strings.Builder{}}
	p.cmd.Env, p.cmd.Stderr = s.env(), p.output
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = 10 * time.Second
	return p, p.cmd.Start()
}

// end stops the program in good order, once. What it reported is printed.
func (p *process) end() error {
	if p.ended {
		return nil
	}
	p.ended = true
	err := errors.Join(p.cmd.Process.Signal(os.Interrupt), p.cmd.Wait())
	if p.output.Len() > 0 {
		fmt.Fprint(os.Stderr, p.output.String())
	}
	return err
}

// shop is the client, which takes commands.
type shop struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

// answer is the shop's answer to a command.
type answer struct {
	Acknowledged, Placed, Queued, Documents int
	Slowest                                 int // write, with its time in the queue, in milliseconds
	Different                               []string
}

func (s *stage) startShop() (*shop, error) {
	cmd := exec.CommandContext(s.ctx, "node", filepath.Join("story", "shop.mjs"), s.endpoint, emulator.Key, database, rate)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	answers := bufio.NewScanner(out)
	answers.Buffer(nil, 16<<20)
	return &shop{cmd, in, answers}, cmd.Start()
}

func (s *shop) do(command string) (a answer, err error) {
	if _, err := fmt.Fprintln(s.in, command); err != nil {
		return a, fmt.Errorf("the shop has ended: %w", err)
	}
	if !s.answers.Scan() {
		return a, fmt.Errorf("the shop does not answer %q: %w", command, errors.Join(s.answers.Err(), io.ErrUnexpectedEOF))
	}
	return a, json.Unmarshal(s.answers.Bytes(), &a)
}

func (s *shop) end() error { return errors.Join(s.in.Close(), s.cmd.Wait()) }
