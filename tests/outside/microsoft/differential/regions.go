package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// regionalPair are the two accounts with two regions each, the same ones. One of them takes
// the writes of both accounts.
type regionalPair struct {
	*pair
	regions   [2][2]*account // by account and region: its endpoint, and positions in its feed
	keyRanges [2][]keyRange  // by account
	writer    int            // index of the region that takes the writes
	paused    bool           // replication to the other region
	offline   int            // index of the region that does not answer, or none

	// While replication is paused: places of keys, and ids of the embedded account's ranges,
	// with a write that the read region does not have.
	missing, behind map[string]bool
}

var regionNames = [2]string{"West Europe", "North Europe"}

const none = -1

// newRegionalPair finds the regions of accounts whose containers exist.
func newRegionalPair(p *pair) (*regionalPair, error) {
	r := &regionalPair{pair: p, offline: none, missing: map[string]bool{}, behind: map[string]bool{}}
	answers, err := p.both(func(*account) request { return request{method: http.MethodGet, path: "/"} })
	if err != nil {
		return nil, err
	}
	for i, a := range answers {
		endpoints := map[string]string{}
		for _, location := range a.list("readableLocations") {
			endpoints[fmt.Sprint(location["name"])] = fmt.Sprint(location["databaseAccountEndpoint"])
		}
		for region, name := range regionNames {
			if endpoints[name] == "" {
				return nil, fmt.Errorf("the account at %s has no region %s: %s", p.accounts[i].endpoint, name, a.body)
			}
			r.regions[i][region] = newAccount(endpoints[name])
		}
	}
	r.keyRanges, err = p.readRanges()
	return r, err
}

// step sends the requests of one step.
func (p *regionalPair) step() error { return drawStep(p.dice, regionalSteps)(p) }

// role says what a region is for, in the names of requests.
func (p *regionalPair) role(region int) string {
	if region == p.writer {
		return "write region"
	}
	return "read region"
}

// anyRegion draws a region, the write region as often as the other.
func (p *regionalPair) anyRegion() int { return p.dice.IntN(len(regionNames)) }

// in sends a request to a region of both accounts. A region that is offline may give no answer.
func (p *regionalPair) in(region int, build func(*account) request) (answers [2]*answer, err error) {
	p.sent++
	for i, a := range p.accounts {
		answers[i], err = p.regions[i][region].send(build(a))
		if err != nil && region != p.offline {
			return answers, err
		}
		if err != nil {
			answers[i] = &answer{}
		}
	}
	return answers, nil
}

// noteCodes notes codes that differ, and reports whether they are equal.
func (p *regionalPair) noteCodes(name string, answers [2]*answer) bool {
	return p.note(name, answers[0].code(), answers[1].code())
}

// manage sends a request that manages the account to both, or fails.
func (p *regionalPair) manage(method, name string, body any) error {
	for _, a := range p.accounts {
		if err := a.manage(method, name, body); err != nil {
			return err
		}
	}
	return nil
}

func (a *account) manage(method, name string, body any) error {
	answer, err := a.send(request{method, "/_emulator/" + name, nil, mustEncode(body)})
	if err == nil && answer.status != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, name, answer.code(), answer.body)
	}
	return err
}

// settleAndPause pauses or resumes the replication to the read region. All writes before a
// pause arrive: the embedded account delivers them with the next request to the container.
func (p *regionalPair) settleAndPause(paused bool) error {
	if _, err := p.in(p.writer, document{items, "key 0", "a"}.read); err != nil {
		return err
	}
	return p.pause(paused)
}

// pause lets no write arrive in the read region. If it is false, all of them arrive.
func (p *regionalPair) pause(paused bool) error {
	p.paused = paused
	if !paused {
		clear(p.missing)
		clear(p.behind)
	}
	return p.manage(http.MethodPost, "replication", map[string]any{"region": regionNames[1-p.writer], "paused": paused})
}

// failOver makes the other region the write region, after it has got all writes.
func (p *regionalPair) failOver() error {
	if err := p.pause(false); err != nil {
		return err
	}
	p.writer = 1 - p.writer
	return p.manage(http.MethodPost, "failover", map[string]any{"region": regionNames[p.writer], "kind": "planned"})
}

// takeOffline makes a region not answer, and bringOnline ends that.
func (p *regionalPair) takeOffline(region int) error {
	p.offline = region
	return p.manage(http.MethodPost, "faults", map[string]any{"region": regionNames[region], "drop": "before"})
}

func (p *regionalPair) bringOnline() error {
	p.offline = none
	return p.manage(http.MethodDelete, "faults", nil)
}

// noteAccount compares the lists of regions in the account's document, which a region serves.
func (p *regionalPair) noteAccount(name string, region int) error {
	answers, err := p.in(region, func(*account) request { return request{method: http.MethodGet, path: "/"} })
	if err == nil && p.noteCodes(name, answers) {
		p.note(name, p.locations(answers[0]), p.locations(answers[1]))
	}
	return err
}

// locations are the regions of the account's document, by their roles.
func (p *regionalPair) locations(a *answer) string {
	roles := func(list string) string {
		var names []string
		for _, location := range a.list(list) {
			for region, name := range regionNames {
				if location["name"] == name {
					names = append(names, p.role(region))
				}
			}
		}
		return strings.Join(names, ", ")
	}
	var body struct{ EnableMultipleWriteLocations bool }
	text := "reads: " + roles("readableLocations") + "; writes: " + roles("writableLocations")
	if err := json.Unmarshal(a.body, &body); err != nil || body.EnableMultipleWriteLocations {
		text += ", all write"
	}
	return text
}

// sessionToken is a token of one range: {range}:{version}#{lsn}[#{region}={lsn}…].
type sessionToken struct{ keyRange, version, lsn, regions string }

func parseToken(text string) (t sessionToken) {
	t.keyRange, text, _ = strings.Cut(text, ":")
	t.version, text, _ = strings.Cut(text, "#")
	t.lsn, text, _ = strings.Cut(text, "#")
	for part := range strings.SplitSeq(text, "#") {
		region, _, _ := strings.Cut(part, "=")
		t.regions += region + " "
	}
	return t
}

func (a *answer) token() sessionToken { return parseToken(a.header.Get("X-Ms-Session-Token")) }

// adoptPositions lets the feed of one region continue after the positions in the other.
func (p *regionalPair) adoptPositions(region int) {
	for i := range p.accounts {
		p.regions[i][region].feed = maps.Clone(p.regions[i][1-region].feed)
	}
}
