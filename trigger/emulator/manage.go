package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// managementPath is the path under which other processes manage the account.
const managementPath = "/_emulator/"

// State is a picture of an account.
type State struct {
	Endpoint  string          `json:"endpoint"`
	Databases []DatabaseState `json:"databases"`
	Faults    []Fault         `json:"faults"`
	Regions   []RegionState   `json:"regions,omitempty"` // if there are several
}

// DatabaseState is one database in a [State].
type DatabaseState struct {
	ID         string           `json:"id"`
	ResourceID string           `json:"rid"`
	Containers []ContainerState `json:"containers"`
}

// ContainerState is one container in a [State].
type ContainerState struct {
	ID         string       `json:"id"`
	ResourceID string       `json:"rid"`
	Items      int          `json:"items"`
	Retention  int          `json:"retention,omitempty"` // of all versions, in minutes; 0 = they are not kept
	Ranges     []RangeState `json:"ranges"`              // in key order
}

// RangeState is one physical range in a [State].
type RangeState struct {
	ID        string      `json:"id"`
	Min       string      `json:"min"`
	Max       string      `json:"max"`
	Parents   []string    `json:"parents"`
	LSN       int64       `json:"lsn"` // of the newest transaction
	Items     int         `json:"items"`
	Splitting bool        `json:"splitting"`          // a split or merge of it has begun
	Versions  int         `json:"versions,omitempty"` // kept in the log of all versions
	Trimmed   int64       `json:"trimmed,omitempty"`  // LSN up to which the log has nothing: positions below it are refused
	Copies    []CopyState `json:"copies,omitempty"`   // in the account's regions, if there are several
}

// State returns the contents of the account, in order of names.
func (a *Account) State() State {
	s := State{Endpoint: a.Endpoint(), Databases: []DatabaseState{}, Faults: a.faults.list(), Regions: a.regionStates()}
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(a.databases)) {
		s.Databases = append(s.Databases, databaseState(a.databases[name]))
	}
	return s
}

func databaseState(d *database) DatabaseState {
	s := DatabaseState{ID: d.Name, ResourceID: d.rid(), Containers: []ContainerState{}}
	for _, name := range slices.Sorted(maps.Keys(d.containers)) {
		s.Containers = append(s.Containers, containerState(d.containers[name]))
	}
	return s
}

func containerState(o *container) ContainerState {
	o.mu.Lock()
	defer o.mu.Unlock()
	advance(o, o.platform.now())
	s := ContainerState{ID: o.Name, ResourceID: o.rid, Items: len(o.items), Retention: int(o.retention / time.Minute), Ranges: []RangeState{}}
	for i := range o.Partitions {
		p := o.newestCopy(i)
		r := RangeState{
			ID: p.ID, Min: p.Min, Max: p.Max, Parents: slices.Clone(p.Parents), LSN: p.lsn, Items: p.items.len(),
			Splitting: o.reshaping.concerns(p.ID), Copies: o.copyStates(i),
		}
		if o.logging {
			r.Versions, r.Trimmed = len(p.versions.kept), p.versions.trimmed
		}
		s.Ranges = append(s.Ranges, r)
	}
	return s
}

func (s *faults) list() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Fault{}
	for _, f := range s.active {
		list = append(list, f.Fault)
	}
	return list
}

// manage answers requests under /_emulator. They need no authorization, so manage
// refuses them if they come from another machine or from a web page.
func (a *Account) manage(req *http.Request) *response {
	body, err := []byte(nil), a.local(req)
	if err == nil && req.Body != nil {
		body, err = io.ReadAll(io.LimitReader(req.Body, maxBody))
	}
	var result any
	if err == nil {
		result, err = a.manageRequest(req.Method, strings.TrimPrefix(req.URL.Path, managementPath), body)
	}
	if err != nil {
		return finishManagement(managementFailure(err).response())
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return finishManagement(managementFailure(err).response())
	}
	return finishManagement(reply(http.StatusOK, append(text, '\n')))
}

func finishManagement(r *response) *response {
	r.set("content-type", "application/json")
	return r
}

// managementFailure returns the failure in err, or a bad request if there is none.
func managementFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return &failure{status: f.status, substatus: f.substatus, message: err.Error()}
	}
	return badRequest("%v", err)
}

// local fails unless a management request comes from this machine, from a program.
func (a *Account) local(req *http.Request) error {
	if err := a.checkOrigin(req); err != nil || req.RemoteAddr == "" {
		return err // no remote address: in process
	}
	if address, err := netip.ParseAddrPort(req.RemoteAddr); err != nil || !address.Addr().Unmap().IsLoopback() {
		return fail(http.StatusForbidden, 0, "The emulator is managed from its own machine only.")
	}
	if !loopbackName(req.Host) {
		return fail(http.StatusForbidden, 0, "The emulator is managed as localhost or by a loopback address, not as %q.", req.Host)
	}
	return nil
}

// manageRequest carries out one request.
func (a *Account) manageRequest(method, path string, body []byte) (any, error) {
	name, id, _ := strings.Cut(path, "/")
	switch method + " " + name {
	case "GET state":
		return a.State(), nil
	case "POST split":
		return a.manageSplit(body)
	case "POST merge":
		return a.manageMerge(body)
	case "POST failover":
		return a.manageFailover(body)
	case "POST replication":
		return a.manageReplication(body)
	case "GET faults":
		return a.faults.describe(), nil
	case "POST faults":
		return a.manageFault(body)
	case "DELETE faults":
		return map[string]int{"removed": a.faults.remove(id)}, nil
	}
	return nil, fail(http.StatusNotFound, 0, "There is no %s %s%s: use GET state, POST split, POST merge, POST failover, POST replication, or GET, POST and DELETE faults.", method, managementPath, path)
}

func (a *Account) manageSplit(body []byte) (any, error) {
	var request struct{ Database, Container, Range string }
	if err := unmarshalStrict(body, &request); err != nil {
		return nil, err
	}
	children, err := a.Split(request.Database, request.Container, request.Range)
	return map[string][]string{"children": children}, err
}

func (a *Account) manageMerge(body []byte) (any, error) {
	var request struct {
		Database, Container string
		Ranges              []string
	}
	if err := unmarshalStrict(body, &request); err != nil {
		return nil, err
	}
	child, err := a.Merge(request.Database, request.Container, request.Ranges...)
	return map[string]string{"child": child}, err
}

func (a *Account) manageFailover(body []byte) (any, error) {
	var request struct {
		Database, Container, Range, Region string
		Kind                               Failover
	}
	if err := unmarshalStrict(body, &request); err != nil {
		return nil, err
	}
	var err error
	if request.Database+request.Container+request.Range == "" {
		err = a.FailOver(request.Region, request.Kind)
	} else {
		err = a.FailOverRange(request.Database, request.Container, request.Range, request.Region, request.Kind)
	}
	return map[string][]RegionState{"regions": a.regionStates()}, err
}

func (a *Account) manageReplication(body []byte) (any, error) {
	var request struct {
		Region string
		Lag    *duration // as before if it is absent
		Paused bool
	}
	if err := unmarshalStrict(body, &request); err != nil {
		return nil, err
	}
	replication := Replication{Paused: request.Paused}
	if request.Lag != nil {
		replication.Lag = time.Duration(*request.Lag)
	} else if index, err := a.regions.find(request.Region); err == nil {
		replication.Lag = a.regions.link(index).Lag
	}
	err := a.SetReplication(request.Region, replication)
	return map[string][]RegionState{"regions": a.regionStates()}, err
}

func (a *Account) manageFault(body []byte) (any, error) {
	var f Fault
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("the fault cannot be read: %w", err)
	}
	id, err := a.addFault(f)
	return map[string]string{"id": id}, err
}

func (s *faults) describe() map[string][]faultJSON {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []faultJSON{}
	for _, f := range s.active {
		list = append(list, describeFault(f.Fault, f.id))
	}
	return map[string][]faultJSON{"faults": list}
}

// unmarshalStrict decodes b into v. It fails if b has a property that v does not.
func unmarshalStrict(b []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return fmt.Errorf("the request body cannot be read: %w", err)
	}
	return nil
}
