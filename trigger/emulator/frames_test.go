package emulator

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"io"
	"log"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// preface begins a connection of HTTP/2, with settings that change nothing: RFC 9113, section 3.4.
var preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(frameSettings, 0, 0, "")

// Types and flags of frames: RFC 9113, section 6.
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePushPromise  = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8
	frameContinuation = 9

	flagEndStream  = 1
	flagEndHeaders = 4
)

func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload
}

// headerField is a header that the receiver does not add to its table: RFC 7541, section 6.2.2. The
// value has less than 127 bytes.
func headerField(name, value string) string {
	return "\x00" + string(byte(len(name))) + name + string(byte(len(value))) + value
}

// storedField is a header that the receiver adds to its table, with a value of 127 to 254 bytes.
func storedField(name, value string) string {
	return "\x40" + string(byte(len(name))) + name + "\x7f" + string(byte(len(value)-127)) + value
}

// headerBlock is the header block of a request.
func headerBlock(method, path string, fields ...string) string {
	return headerField(":method", method) + headerField(":scheme", "http") + headerField(":authority", "localhost") + headerField(":path", path) + strings.Join(fields, "")
}

// hostileFrames are frames that a server of HTTP/2 must not crash on, nor keep: valid requests,
// violations of the protocol, and the known floods.
func hostileFrames() map[string]string {
	authorized := storedField("authorization", "type=aad&ver=1.0&sig=x.e30."+base64.RawURLEncoding.EncodeToString([]byte(Key)))
	key := headerField("x-ms-documentdb-partitionkey", `["k"]`)
	get, create := headerBlock("GET", items+"/a", key, authorized), headerBlock("POST", items, key, authorized)
	state := headerBlock("GET", "/_emulator/state")
	const end = flagEndStream | flagEndHeaders
	long := strings.Repeat("x", 16<<10)
	repeated := func(n int, of func(stream uint32) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(of(uint32(2*i + 1)))
		}
		return b.String()
	}
	return map[string]string{
		"requests":             frame(frameHeaders, end, 1, get) + frame(frameHeaders, flagEndHeaders, 3, create) + frame(frameData, 0, 3, `{"id":"b",`) + frame(frameData, flagEndStream, 3, `"pk":"k"}`) + frame(frameHeaders, end, 5, state),
		"binary body":          frame(frameHeaders, flagEndHeaders, 1, create) + frame(frameData, flagEndStream, 1, binaryText("b")),
		"trailers":             frame(frameHeaders, flagEndHeaders, 1, create) + frame(frameData, 0, 1, `{}`) + frame(frameHeaders, end, 1, headerField("x-ms-date", "never")),
		"wrong content length": frame(frameHeaders, flagEndHeaders, 1, create+headerField("content-length", "99999999999999")) + frame(frameData, flagEndStream, 1, `{}`),
		"pseudo header late":   frame(frameHeaders, end, 1, headerField("a", "b")+state),
		"even stream":          frame(frameHeaders, end, 2, state),
		"stream 0":             frame(frameData, 0, 0, "x") + frame(frameHeaders, end, 0, state),
		"data of no stream":    frame(frameData, flagEndStream, 7, "x"),
		"padding beyond frame": frame(frameHeaders, end|8, 1, "\xff"+state),
		"index beyond table":   frame(frameHeaders, end, 1, "\xff\xff\xff\xff\x0f"),
		"broken Huffman code":  frame(frameHeaders, end, 1, "\x00\x84\xff\xff\xff\xff\x00"),
		"priority of itself":   frame(framePriority, 0, 1, "\x00\x00\x00\x01\xff") + frame(framePriority, 0, 3, "\x00"),
		"window overflow":      frame(frameWindowUpdate, 0, 0, "\x7f\xff\xff\xff") + frame(frameWindowUpdate, 0, 0, "\x7f\xff\xff\xff"),
		"window of 0":          frame(frameHeaders, end, 1, state) + frame(frameWindowUpdate, 0, 1, "\x00\x00\x00\x00"),
		"push by the client":   frame(framePushPromise, flagEndHeaders, 1, "\x00\x00\x00\x02"+state),
		"unknown frame":        frame(0x77, 0xff, 1, "x") + frame(frameHeaders, end, 1, state),
		"larger than allowed":  frame(frameHeaders, end, 1, strings.Repeat("x", 1<<20)),
		"cut":                  frame(frameHeaders, end, 1, state)[:20],
		"goodbye":              frame(frameGoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00") + frame(frameHeaders, end, 1, state),
		"table of 4 GB":        frame(frameSettings, 0, 0, "\x00\x01\xff\xff\xff\xff\x00\x05\x00\xff\xff\xff") + frame(frameHeaders, end, 1, get),
		"settings flood":       repeated(2000, func(uint32) string { return frame(frameSettings, 0, 0, "\x00\x04\x00\x00\x00\x01") }),
		"ping flood":           repeated(2000, func(uint32) string { return frame(framePing, 0, 0, "12345678") }),
		"empty data flood":     frame(frameHeaders, flagEndHeaders, 1, create) + repeated(2000, func(uint32) string { return frame(frameData, 0, 1, "") }),
		"rapid reset": repeated(2000, func(stream uint32) string {
			return frame(frameHeaders, end, stream, state) + frame(frameReset, 0, stream, "\x00\x00\x00\x08")
		}),
		"streams without end": repeated(1000, func(stream uint32) string { return frame(frameHeaders, flagEndHeaders, stream, create) }),
		"bodies without end": repeated(200, func(stream uint32) string {
			return frame(frameHeaders, flagEndHeaders, stream, create) + frame(frameData, 0, stream, long[:4<<10])
		}),
		"continuation flood": frame(frameHeaders, flagEndStream, 1, state) + repeated(500, func(uint32) string { return frame(frameContinuation, 0, 1, long) }),
		"headers by reference": frame(frameHeaders, end, 1, state+storedField("x", strings.Repeat("y", 254))) + repeated(200, func(stream uint32) string {
			return frame(frameHeaders, end, stream+2, state+strings.Repeat("\xbe", 15<<10))
		}),
		"interrupted header":     frame(frameHeaders, 0, 1, state) + frame(framePing, 0, 0, "12345678"),
		"HTTP/1.1 in the middle": "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
	}
}

// FuzzFrames holds the account's port to surviving any frames of HTTP/2: no handler panics, the
// memory of an open connection is bounded, its goroutines end with it, and another client is served.
func FuzzFrames(f *testing.F) {
	for _, frames := range hostileFrames() {
		if len(frames) < 1<<10 { // the fuzzer would spend its time on making longer ones shorter
			f.Add([]byte(frames))
		}
	}
	send := framesSender(f)
	f.Fuzz(func(t *testing.T, frames []byte) { send(t, frames) })
}

// TestServeSurvivesHostileFrames also tries the floods, which are too long for the corpus of FuzzFrames.
func TestServeSurvivesHostileFrames(t *testing.T) {
	send := framesSender(t)
	for name, frames := range hostileFrames() {
		t.Run(name, func(t *testing.T) { send(t, []byte(frames)) })
	}
}

// framesSender returns the test of some frames. It fails also if a server logs a panic, until the
// end of t.
func framesSender(t testing.TB) func(t *testing.T, frames []byte) {
	config, err := serverConfig("")
	if err != nil {
		t.Fatal(err)
	}
	var reported lockedBuffer
	previous := log.Writer()
	log.SetOutput(&reported)
	t.Cleanup(func() { log.SetOutput(previous) })
	return func(t *testing.T, frames []byte) {
		synctest.Test(t, func(t *testing.T) { // the server waits a second before it closes a connection
			reported.take()
			sendFrames(t, frames, config)
			if text := reported.take(); strings.Contains(text, "panic") {
				t.Errorf("%s", text)
			}
		})
	}
}

// TestFramesReachTheAccount: frames of FuzzFrames reach the account's operations.
func TestFramesReachTheAccount(t *testing.T) {
	config, err := serverConfig("")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c := sendFrames(t, []byte(hostileFrames()["requests"]), config)
		c.expect("200", "GET", items+"/b", "", pk("k")...)
	})
}

// sendFrames sends frames to an account with the item a on a connection of their own.
func sendFrames(t *testing.T, frames []byte, config *tls.Config) *client {
	c, a := newItems(t, 1, nil)
	c.create("a", "k")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	listener, served := &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}, make(chan error, 1)
	go func() { served <- a.accept(ctx, listener, config) }()
	before := heapBytes()
	conn := listener.dial()
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, conn) }) // returns when the connection is closed
	_, _ = conn.Write([]byte(preface))                      // fails if the server closes the connection
	_, _ = conn.Write(frames)
	synctest.Wait() // the server has handled all it has read
	if now := heapBytes(); now > before+maxKept {
		t.Errorf("after %d bytes the connection keeps %d bytes, at most %d are allowed", len(frames), now-before, maxKept)
	}
	_ = conn.Close()
	reading.Wait()
	<-conn.ended
	c.expect("200", "GET", items+"/a", "", pk("k")...)
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	return c
}

// maxKept bounds the memory of a connection whose bytes have all been read: its streams, their
// headers and the parts of bodies that have arrived.
const maxKept = 8 << 20

func heapBytes() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// pipeListener accepts connections in memory. A write to one returns when the account has read it.
type pipeListener struct {
	connections chan net.Conn
	closing     sync.Once
	closed      chan struct{}
}

// clientEnd is the client's end of a connection, and tells when the account has closed its own.
type clientEnd struct {
	net.Conn
	ended chan struct{}
}

type serverEnd struct {
	net.Conn
	closing sync.Once
	ended   chan struct{}
}

func (e *serverEnd) Close() error {
	defer e.closing.Do(func() { close(e.ended) })
	return e.Conn.Close()
}

func (l *pipeListener) dial() clientEnd {
	client, server := net.Pipe()
	ended := make(chan struct{})
	l.connections <- &serverEnd{Conn: server, ended: ended}
	return clientEnd{client, ended}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// lockedBuffer keeps what servers log.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}
