package emulator

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Drop says when a fault ends the connection instead of answering: before or after
// the operation.
type Drop string

const (
	DropBefore Drop = "before" // the operation is not carried out
	DropAfter  Drop = "after"  // it is, and its answer is lost
)

// Fault is a scripted failure. It acts on a request if all its selecting fields
// match; a zero field matches every request. If several faults match, the one that
// was injected first acts.
//
// In JSON, as POST /_emulator/faults takes it, names begin with a small letter
// and durations are strings such as "150ms".
type Fault struct {
	// Method is the HTTP method: GET, POST, PUT, PATCH, DELETE.
	Method string `json:"method,omitempty"`
	// Resource is the resource type: dbs, colls, docs, pkranges or offers.
	Resource string `json:"resource,omitempty"`
	// Path is a regular expression for the unescaped path.
	Path string `json:"path,omitempty"`
	// Header maps header names to regular expressions for their values. An absent
	// header has the value "".
	Header map[string]string `json:"header,omitempty"`
	// Range is the partition key range id that the request names.
	Range string `json:"range,omitempty"`
	// Region is the region of the account that the request is sent to. With Drop it does not
	// answer until the fault is removed.
	Region string `json:"region,omitempty"`
	// Match is a further condition. It must not call the account, and not read the
	// request's body.
	Match func(*http.Request) bool `json:"-"`

	// Nth leaves the first Nth-1 matches alone.
	Nth int `json:"nth,omitempty"`
	// Count is how many requests to act on; 0 = until the fault is removed.
	Count int `json:"count,omitempty"`
	// Probability is the share of matches to act on; 0 = all. Seed and the number
	// of the match alone decide if the fault acts.
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`

	// Status, with SubStatus, RetryAfter and Message, is the answer in place of the
	// operation; 0 = the operation is carried out.
	Status     int           `json:"status,omitempty"`
	SubStatus  int           `json:"substatus,omitempty"`
	RetryAfter time.Duration `json:"-"` // x-ms-retry-after-ms
	Message    string        `json:"message,omitempty"`
	// Delay is added before anything else happens.
	Delay time.Duration `json:"-"`
	// Drop ends the connection without an answer.
	Drop Drop `json:"drop,omitempty"`
	// Truncate ends the connection after this many bytes of the body, or after half
	// of the body if it is not longer. 0 = the body is whole.
	Truncate int `json:"truncate,omitempty"`
}

// faults are the scripted faults of an account, in order of injection.
type faults struct {
	mu     sync.Mutex
	last   int
	active []*activeFault
}

type activeFault struct {
	Fault
	id          string
	path        *regexp.Regexp
	header      map[string]*regexp.Regexp
	seen, acted int
}

// Inject scripts a fault. It acts on matching requests until remove is called or
// its Count is reached. Inject panics if [Fault.Check] refuses the fault, or if the account
// does not have its region.
func (a *Account) Inject(f Fault) (remove func()) {
	id, err := a.addFault(f)
	if err != nil {
		panic("emulator: " + err.Error())
	}
	return func() { a.faults.remove(id) }
}

// addFault scripts a fault and returns its id.
func (a *Account) addFault(f Fault) (string, error) {
	if f.Region != "" {
		if _, err := a.regions.find(f.Region); err != nil {
			return "", fmt.Errorf("fault: %w", err)
		}
	}
	return a.faults.add(f)
}

// Check returns an error if an expression of the fault does not compile, a value
// is out of its bounds, or the fault would do nothing.
func (f Fault) Check() error {
	_, err := activate(f)
	return err
}

// activate compiles the expressions of a fault. It fails as [Fault.Check] does.
func activate(f Fault) (*activeFault, error) {
	if err := f.checkValues(); err != nil {
		return nil, err
	}
	active := &activeFault{Fault: f, header: make(map[string]*regexp.Regexp)}
	var err error
	if active.path, err = regexp.Compile(f.Path); err != nil {
		return nil, fmt.Errorf("fault path: %w", err)
	}
	for name, expression := range f.Header {
		if active.header[canonical(name)], err = regexp.Compile(expression); err != nil {
			return nil, fmt.Errorf("fault header %s: %w", name, err)
		}
	}
	return active, nil
}

func (f Fault) checkValues() error {
	switch {
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("fault status is %d; give an HTTP status from 200 to 599", f.Status)
	case f.Drop != "" && f.Drop != DropBefore && f.Drop != DropAfter:
		return fmt.Errorf("fault drop is %q; give %q or %q", f.Drop, DropBefore, DropAfter)
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("fault probability is %v; give 0 to 1", f.Probability)
	case min(f.Nth, f.Count, f.Truncate) < 0 || min(f.Delay, f.RetryAfter) < 0:
		return fmt.Errorf("fault nth, count, truncate, delay and retryAfter cannot be negative")
	case !f.hasEffect():
		return fmt.Errorf("fault does nothing; give status, delay, drop or truncate")
	}
	return nil
}

func (f Fault) hasEffect() bool {
	return f.Status != 0 || f.Delay != 0 || f.Drop != "" || f.Truncate != 0
}

func (s *faults) add(f Fault) (string, error) {
	active, err := activate(f)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	active.id = fmt.Sprint(s.last)
	s.active = append(s.active, active)
	return active.id, nil
}

// remove ends the fault with this id, or all for "".
func (s *faults) remove(id string) (removed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldCount := len(s.active)
	s.active = slices.DeleteFunc(s.active, func(f *activeFault) bool { return id == "" || f.id == id })
	return oldCount - len(s.active)
}

// match returns the fault that acts on a request for a kind of resource in a region, nil if
// none does.
// Names in header are in canonical form.
func (s *faults) match(req *http.Request, header http.Header, kind, region string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.active {
		if !f.selects(req, header, kind, region) || !f.due() {
			continue
		}
		if f.acted++; f.Count > 0 && f.acted == f.Count {
			s.active = slices.Delete(s.active, i, i+1)
		}
		return &f.Fault
	}
	return nil
}

func (f *activeFault) selects(req *http.Request, header http.Header, kind, region string) bool {
	for name, expression := range f.header {
		if !expression.MatchString(header.Get(name)) {
			return false
		}
	}
	return (f.Method == "" || strings.EqualFold(f.Method, req.Method)) &&
		(f.Resource == "" || f.Resource == kind) &&
		(f.Region == "" || regionKey(f.Region) == regionKey(region)) &&
		(f.Range == "" || f.Range == header.Get("X-Ms-Documentdb-Partitionkeyrangeid")) &&
		f.path.MatchString(req.URL.Path) &&
		(f.Match == nil || f.Match(req))
}

// due counts a match and reports whether the fault acts on it.
func (f *activeFault) due() bool {
	f.seen++
	return f.seen >= f.Nth && (f.Probability == 0 || chance(f.Seed, f.seen) < f.Probability)
}

// chance is a number from 0 to 1 that follows from its arguments.
func chance(seed uint64, n int) float64 {
	h := fnv.New64a()
	b := binary.LittleEndian.AppendUint64(nil, seed)
	h.Write(binary.LittleEndian.AppendUint64(b, uint64(n)*0x9E3779B97F4A7C15))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd // the finalizer of MurmurHash3: FNV mixes short input badly
	return float64((x^x>>33)>>11) / (1 << 53)
}

// The methods below apply a fault to a call. They do nothing if f is nil.

func (f *Fault) delay() time.Duration {
	if f == nil {
		return 0
	}
	return f.Delay
}

func (f *Fault) drops(moment Drop) bool { return f != nil && f.Drop == moment }

func (f *Fault) answer() *response {
	if f == nil || f.Status == 0 {
		return nil
	}
	message := f.Message
	if message == "" {
		message = "This fault was injected."
	}
	return (&failure{status: f.Status, substatus: f.SubStatus, message: message, retryAfter: f.RetryAfter}).response()
}

func (f *Fault) truncates() bool { return f != nil && f.Truncate > 0 }

// keep is how much of a body of n bytes is sent.
func (f *Fault) keep(n int) int {
	if f.Truncate < n {
		return f.Truncate
	}
	return n / 2
}

// plainFault is a Fault without its methods.
type plainFault Fault

// faultJSON is a fault as the management endpoint speaks of it.
type faultJSON struct {
	ID string `json:"id,omitempty"`
	plainFault
	RetryAfter duration `json:"retryAfter,omitempty"`
	Delay      duration `json:"delay,omitempty"`
}

// duration is a time.Duration that reads and writes as "150ms".
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

func describeFault(f Fault, id string) faultJSON {
	return faultJSON{ID: id, plainFault: plainFault(f), RetryAfter: duration(f.RetryAfter), Delay: duration(f.Delay)}
}

// readFault is the inverse of describeFault.
func readFault(b []byte) (Fault, error) {
	var j faultJSON
	err := unmarshalStrict(b, &j)
	f := Fault(j.plainFault)
	f.RetryAfter, f.Delay = time.Duration(j.RetryAfter), time.Duration(j.Delay)
	return f, err
}

// MarshalJSON gives the form of POST /_emulator/faults.
func (f Fault) MarshalJSON() ([]byte, error) { return json.Marshal(describeFault(f, "")) }

// UnmarshalJSON reads the form of POST /_emulator/faults.
func (f *Fault) UnmarshalJSON(b []byte) error {
	read, err := readFault(b)
	if err == nil {
		*f = read
	}
	return err
}
