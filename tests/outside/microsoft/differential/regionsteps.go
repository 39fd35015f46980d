package main

import (
	"fmt"
	"net/http"
	"strconv"
)

var regionalSteps = []step[*regionalPair]{
	{8, func(p *regionalPair) error { return p.write(p.create) }},
	{8, func(p *regionalPair) error { return p.write(p.upsert) }},
	{6, func(p *regionalPair) error { return p.write(p.replace) }},
	{4, func(p *regionalPair) error { return p.write(p.remove) }},
	{20, (*regionalPair).readItem},
	{4, (*regionalPair).readChanges},
	{4, (*regionalPair).readChangesSession},
	{4, func(p *regionalPair) error { return p.pause(!p.paused) }},
	{2, func(p *regionalPair) error { return p.noteAccount("account", p.anyRegion()) }},
	{1, (*regionalPair).planFailover},
	{1, (*regionalPair).loseReadRegion},
	{1, (*regionalPair).loseWriteRegion},
}

// anyItem draws a place of few, so that regions often differ there.
func (p *regionalPair) anyItem() document {
	return document{items, fmt.Sprint("key ", p.dice.IntN(12)), []string{"a", "b"}[p.dice.IntN(2)]}
}

// write sends a write to the write region, and one in four to the other.
func (p *regionalPair) write(draw func(document) writeRequest) error {
	d := p.anyItem()
	if p.dice.IntN(4) == 0 {
		answers, err := p.in(1-p.writer, draw(d).build)
		if err == nil {
			p.noteCodes("write in the read region", answers)
		}
		return err
	}
	_, err := p.writeTo(d, draw(d))
	return err
}

// writeTo sends a write to the write region. It fails if the accounts answer differently,
// because they would hold different items from then on.
func (p *regionalPair) writeTo(d document, w writeRequest) ([2]*answer, error) {
	answers, err := p.in(p.writer, w.build)
	switch {
	case err != nil:
		return answers, err
	case !p.noteCodes(w.name+" in the write region", answers):
		return answers, fmt.Errorf("%s in the write region: %s and %s", w.name, answers[0].code(), answers[1].code())
	case answers[0].status < http.StatusBadRequest:
		p.noteWrite(d, answers)
		p.missing[d.place()] = p.paused
	}
	return answers, nil
}

// readItem reads an item in a region.
func (p *regionalPair) readItem() error {
	return p.readIn(p.anyItem(), p.anyRegion(), p.dice.IntN(2) == 0)
}

// readIn reads an item in a region, in the session of its key's newest write or in none.
func (p *regionalPair) readIn(d document, region int, inSession bool) error {
	name := "read in the " + p.role(region)
	isMissing := p.missing[d.place()]
	inSession = inSession && p.accounts[0].session[d.place()] != ""
	if inSession {
		name += p.sessionName(d, region)
	}
	answers, err := p.in(region, func(a *account) request {
		header := keyHeader(d.key)
		if inSession {
			header["X-Ms-Session-Token"] = a.session[d.place()]
		}
		return request{http.MethodGet, d.path(), header, nil}
	})
	if err != nil || !p.noteCodes(name, answers) || answers[0].status != http.StatusOK {
		return err
	}
	for _, place := range bodyDifferences(answers[0].body, answers[1].body) {
		p.note(name, "body", "body, "+place)
	}
	if region == p.writer || !isMissing {
		p.note(name, p.etagFact(d, 0, answers[0]), p.etagFact(d, 1, answers[1]))
	}
	committed := "committed LSN"
	if region == p.writer && isMissing {
		committed += " after a write that the read region has not got"
	}
	p.note(committed, committedFact(answers[0]), committedFact(answers[1]))
	return nil
}

// sessionName says which session a request has, in its name.
func (p *regionalPair) sessionName(d document, region int) string {
	if region != p.writer && p.missing[d.place()] {
		return ", in the session of a write that it has not got"
	}
	return ", in the session of a write"
}

// etagFact says whether an item has the etag that its newest write has returned.
func (p *regionalPair) etagFact(d document, account int, a *answer) string {
	etags := p.accounts[account].etags[d]
	if len(etags) > 0 && etags[len(etags)-1] == a.header.Get("Etag") {
		return "etag of the write"
	}
	return "another etag"
}

// committedFact compares the LSN that all regions have with that of the region.
func committedFact(a *answer) string {
	committed, err := strconv.Atoi(a.header.Get("X-Ms-Global-Committed-Lsn"))
	lsn, lsnErr := strconv.Atoi(a.token().lsn)
	switch {
	case err != nil || lsnErr != nil:
		return "none"
	case committed < lsn:
		return "below the LSN"
	case committed > lsn:
		return "above the LSN"
	}
	return "the LSN"
}

// readChanges reads the feed of a region to its end, after the positions of the read before,
// or of a read in the other region.
func (p *regionalPair) readChanges() error {
	region, size := p.anyRegion(), strconv.Itoa([]int{1, 3, 100}[p.dice.IntN(3)])
	name := "feed of the " + p.role(region)
	if p.dice.IntN(4) == 0 {
		p.adoptPositions(region)
		name += " after positions of the other"
	}
	for n := range p.keyRanges[0] {
		var served [2][]map[string]any
		for i := range p.accounts {
			var err error
			if served[i], err = p.readRange(p.regions[i][region], p.keyRanges[i][n], size); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		p.sent++
		p.noteServed(name, served)
	}
	return nil
}

// readChangesSession reads the feed of a range from now, in the session of a write to it.
func (p *regionalPair) readChangesSession() error {
	d, region := p.anyItem(), p.anyRegion()
	if p.accounts[0].session[d.place()] == "" {
		return nil
	}
	answers, err := p.in(region, func(a *account) request {
		token := a.session[d.place()]
		return request{http.MethodGet, docsPath(items), map[string]string{
			"A-Im": "Incremental Feed", "If-None-Match": "*", "X-Ms-Session-Token": token,
			"X-Ms-Documentdb-Partitionkeyrangeid": parseToken(token).keyRange,
		}, nil}
	})
	if err == nil {
		p.noteCodes("feed of the "+p.role(region)+p.sessionName(d, region), answers)
	}
	return err
}

// touch writes an item without a condition, and returns the tokens of both answers.
func (p *regionalPair) touch(d document) (tokens [2]sessionToken, err error) {
	answers, err := p.writeTo(d, p.replacement(d))
	if err != nil {
		return tokens, err
	}
	return [2]sessionToken{answers[0].token(), answers[1].token()}, nil
}

// replacement upserts an item without a condition.
func (p *regionalPair) replacement(d document) writeRequest {
	body := mustEncode(p.content(d))
	return writeRequest{"upsert", func(*account) request {
		header := keyHeader(d.key)
		header["X-Ms-Documentdb-Is-Upsert"] = "True"
		return request{http.MethodPost, docsPath(d.container), header, body}
	}}
}

// planFailover makes the read region the write region.
func (p *regionalPair) planFailover() error {
	d := p.anyItem()
	oldTokens, err := p.touch(d)
	if err != nil {
		return err
	}
	if err := p.failOver(); err != nil {
		return err
	}
	for region := range regionNames {
		if err := p.noteAccount("account after a planned failover", region); err != nil {
			return err
		}
		if err := p.readIn(d, region, true); err != nil {
			return err
		}
	}
	answers, err := p.in(1-p.writer, p.replacement(d).build)
	if err != nil {
		return err
	}
	p.noteCodes("write in the old write region", answers)
	newTokens, err := p.touch(d)
	if err != nil {
		return err
	}
	p.noteTokens(oldTokens, newTokens)
	p.note("LSN of a write after a planned failover", lsnFact(oldTokens[0], newTokens[0]), lsnFact(oldTokens[1], newTokens[1]))
	return nil
}

// noteTokens compares tokens of the old and the new write region.
func (p *regionalPair) noteTokens(oldTokens, newTokens [2]sessionToken) {
	p.note("session token after a failover", versionFact(oldTokens[0], newTokens[0]), versionFact(oldTokens[1], newTokens[1]))
	p.note("session tokens of both regions", regionsFact(oldTokens[0], newTokens[0]), regionsFact(oldTokens[1], newTokens[1]))
}

func versionFact(oldToken, newToken sessionToken) string {
	before, err := strconv.Atoi(oldToken.version)
	after, laterErr := strconv.Atoi(newToken.version)
	switch {
	case err != nil || laterErr != nil:
		return "no version"
	case after > before:
		return "later version"
	case after < before:
		return "earlier version"
	}
	return "same version"
}

func lsnFact(oldToken, newToken sessionToken) string {
	before, _ := strconv.Atoi(oldToken.lsn)
	after, _ := strconv.Atoi(newToken.lsn)
	if before > 0 && after == before+1 {
		return "the next"
	}
	return "another"
}

func regionsFact(oldToken, newToken sessionToken) string {
	if oldToken.regions == newToken.regions {
		return "with the same regions"
	}
	return "with other regions"
}

// loseReadRegion takes the read region offline and back.
func (p *regionalPair) loseReadRegion() error {
	d := p.anyItem()
	if err := p.takeOffline(1 - p.writer); err != nil {
		return err
	}
	if err := p.noteAccount("account while the read region is offline", p.writer); err != nil {
		return err
	}
	answers, err := p.in(p.offline, func(*account) request { return request{http.MethodGet, d.path(), keyHeader(d.key), nil} })
	if err != nil {
		return err
	}
	p.noteCodes("read in a region that is offline", answers)
	if _, err := p.touch(d); err != nil {
		return err
	}
	return p.comeBack(d)
}

// comeBack brings the region online that is not, and reads an item in both.
func (p *regionalPair) comeBack(d document) error {
	if err := p.bringOnline(); err != nil {
		return err
	}
	for region := range regionNames {
		if err := p.noteAccount("account after a region is back", region); err != nil {
			return err
		}
		if err := p.readIn(d, region, true); err != nil {
			return err
		}
	}
	return nil
}

// loseWriteRegion takes the write region offline, makes the other one the write region, and
// brings the old one back. Nothing is lost, because all writes have been replicated.
func (p *regionalPair) loseWriteRegion() error {
	d := p.anyItem()
	if err := p.pause(false); err != nil {
		return err
	}
	oldTokens, err := p.touch(d)
	if err != nil {
		return err
	}
	if err := p.takeOffline(p.writer); err != nil {
		return err
	}
	const whileOffline = " while the write region is offline"
	if err := p.noteAccount("account"+whileOffline, 1-p.writer); err != nil {
		return err
	}
	answers, err := p.in(p.writer, p.replacement(d).build)
	if err != nil {
		return err
	}
	p.noteCodes("write in a region that is offline", answers)
	if answers, err = p.in(1-p.writer, p.replacement(d).build); err != nil {
		return err
	}
	p.noteCodes("write in the read region"+whileOffline, answers)
	// Microsoft's account has failed over by itself.
	p.writer = 1 - p.writer
	if err := p.accounts[0].manage(http.MethodPost, "failover", map[string]any{"region": regionNames[p.writer], "kind": "unplanned"}); err != nil {
		return err
	}
	newTokens, err := p.touch(d)
	if err != nil {
		return err
	}
	p.noteTokens(oldTokens, newTokens)
	return p.comeBack(d)
}
