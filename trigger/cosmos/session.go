package cosmos

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// sessions are the newest session tokens of a container's physical ranges, from the
// answers to all requests for its documents. mu guards them and is never held
// during I/O.
type sessions struct {
	mu      sync.Mutex
	byRange map[string]sessionToken // by id of the range
}

// observe adopts the tokens of an answer, and returns the ranges whose version has risen. A late
// answer does not set a session back.
func (s *sessions) observe(resp *http.Response) (raised []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range strings.SplitSeq(value(resp.Header, headerSessionToken), ",") {
		one = strings.TrimSpace(one)
		id, text, _ := strings.Cut(one, ":")
		known, found := s.byRange[id]
		if found && known.text == text { // nothing new, as usual
			continue
		}
		token, err := parseSessionToken(text)
		if err != nil { // no answer of this version of the API
			continue
		}
		if found && token.version > known.version {
			raised = append(raised, id)
		}
		if found {
			token = known.merge(token)
		}
		if token.sent = one; token.text != text {
			token.sent = id + ":" + token.text
		}
		if s.byRange == nil {
			s.byRange = map[string]sessionToken{}
		}
		s.byRange[id] = token
	}
	return raised
}

// token returns the token to send with a read of a range, "" if there is none. A
// range that no answer has come from continues the sessions of its parents, as in
// azure-cosmos-dotnet-v3 (ResolvePartitionLocalSessionTokenForGateway).
func (s *sessions) token(r Range) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token, found := s.byRange[r.ID]; found {
		return token.sent
	}
	var inherited sessionToken
	for _, id := range r.Parents {
		switch parent, found := s.byRange[id]; {
		case found && inherited.text == "":
			inherited = parent
		case found:
			inherited = inherited.merge(parent)
		}
	}
	if inherited.text == "" {
		return ""
	}
	return r.ID + ":" + inherited.text
}

// version returns the newest version of a range's session tokens, 0 if there is none.
func (s *sessions) version(id string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byRange[id].version
}

// SessionToken returns the newest session token of a range in the answers to this
// client, for [FeedRequest].SessionToken, or "" if there is none.
func (c *Container) SessionToken(r Range) string { return c.sessions.token(r) }

// forget ends the session of a range.
func (s *sessions) forget(r Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range append(slices.Clone(r.Parents), r.ID) {
		delete(s.byRange, id)
	}
}

// clear ends all sessions.
func (s *sessions) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.byRange)
}

// sessionToken is a position in the replicas of a range. It is immutable.
type sessionToken struct {
	text    string           // without the id of the range
	sent    string           // with it, as it is sent; set in the newest token of a range
	version int64            // rises when the replicas or their regions change
	lsn     int64            // in all regions
	regions map[string]int64 // LSN in a region, by its number
}

// parseSessionToken parses {version}#{lsn}[#{region}={lsn}…]:
// azure-cosmos-dotnet-v3 VectorSessionToken.
func parseSessionToken(text string) (t sessionToken, err error) {
	version, remainder, _ := strings.Cut(text, "#")
	lsn, regions, _ := strings.Cut(remainder, "#")
	t.text = text
	if t.version, err = strconv.ParseInt(version, 10, 64); err != nil {
		return t, err
	}
	if t.lsn, err = strconv.ParseInt(lsn, 10, 64); err != nil || regions == "" {
		return t, err
	}
	t.regions = map[string]int64{}
	for part := range strings.SplitSeq(regions, "#") {
		region, lsn, _ := strings.Cut(part, "=")
		if t.regions[region], err = strconv.ParseInt(lsn, 10, 64); err != nil {
			return t, err
		}
	}
	return t, nil
}

// merge returns a token that is not behind t or later, as azure-sdk-for-java
// VectorSessionToken does. LSNs of two versions cannot be compared, because a failover
// may have lost the newest writes: then that of the newer version counts.
func (t sessionToken) merge(later sessionToken) sessionToken {
	if later.isAhead(t) { // as usual
		return later
	}
	older, newer := t, later
	if t.version > later.version {
		older, newer = later, t
	}
	merged := sessionToken{version: newer.version, lsn: newer.lsn, regions: map[string]int64{}}
	if older.version == newer.version {
		merged.lsn = max(older.lsn, newer.lsn)
	}
	merged.text = fmt.Sprintf("%d#%d", merged.version, merged.lsn)
	for _, region := range slices.Sorted(maps.Keys(newer.regions)) {
		merged.regions[region] = max(older.regions[region], newer.regions[region])
		merged.text += fmt.Sprintf("#%s=%d", region, merged.regions[region])
	}
	return merged
}

// isAhead reports whether a token of the same version is not behind another one.
func (t sessionToken) isAhead(other sessionToken) bool {
	if t.version != other.version || t.lsn < other.lsn {
		return false
	}
	for region, lsn := range t.regions {
		if lsn < other.regions[region] {
			return false
		}
	}
	return true
}

// sessionPosition returns the version and the LSN in a session token
// {range}:{version}#{lsn}[#{region}={lsn}…] or {range}:{lsn}, or 0. There may
// be several tokens, separated by commas.
func sessionPosition(token, rangeID string) (version, lsn int64) {
	for part := range strings.SplitSeq(token, ",") {
		id, value, ok := strings.Cut(part, ":")
		if !ok || strings.TrimSpace(id) != rangeID && strings.Contains(token, ",") {
			continue
		}
		text, vector, versioned := strings.Cut(value, "#")
		if versioned {
			version, _ = strconv.ParseInt(text, 10, 64)
			text, _, _ = strings.Cut(vector, "#")
		}
		lsn, _ = strconv.ParseInt(text, 10, 64)
		return version, lsn
	}
	return 0, 0
}

// ContinuationLSN returns the LSN that a continuation names, with or without its quotes.
// If it names none, ok is false, and lsn is 0: the tokens of merged ranges, for example,
// need not be LSNs.
func ContinuationLSN(continuation string) (lsn int64, ok bool) {
	if continuation == "" {
		return 0, false
	}
	lsn, err := strconv.ParseInt(strings.Trim(continuation, `"`), 10, 64)
	if err != nil {
		return 0, false
	}
	return lsn, true
}
