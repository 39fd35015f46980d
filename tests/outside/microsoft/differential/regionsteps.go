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
	{4, func(p *regionalPair) error { return p.settleAndPause(!p.paused) }},
	{1, (*regionalPair).pauseAfterWrite},
	{2, func(p *regionalPair) error { return p.noteAccount("account", p.anyRegion()) }},
	{1, (*regionalPair).readAhead},
	{1, (*regionalPair).createInReadRegion},
	{1, (*regionalPair).splitRange},
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
		if p.paused {
			p.missing[d.place()], p.behind[answers[0].token().keyRange] = true, true
		}
	}
	return answers, nil
}

// read reads the item, and readSession does so in the session of its key's newest write.
func (d document) read(*account) request {
	return request{http.MethodGet, d.path(), keyHeader(d.key), nil}
}

func (d document) readSession(a *account) request {
	r := d.read(a)
	r.header["X-Ms-Session-Token"] = a.session[d.place()]
	return r
}

// readItem reads an item in a region.
func (p *regionalPair) readItem() error {
	return p.readIn(p.anyItem(), p.anyRegion(), p.dice.IntN(2) == 0)
}

// readIn reads an item in a region, in the session of its key's newest write or in none.
func (p *regionalPair) readIn(d document, region int, inSession bool) error {
	name, build := "read in the "+p.role(region), d.read
	if inSession && p.accounts[0].session[d.place()] != "" {
		name, build = name+p.sessionName(d, region), d.readSession
	}
	answers, err := p.in(region, build)
	if err != nil || !p.noteCodes(name, answers) || answers[0].status != http.StatusOK {
		return err
	}
	for _, place := range bodyDifferences(answers[0].body, answers[1].body) {
		p.note(name, "body", "body, "+place)
	}
	if region == p.writer || !p.missing[d.place()] {
		p.note(name, p.etagFact(d, 0, answers[0]), p.etagFact(d, 1, answers[1]))
	}
	committed := "committed LSN of a read"
	if region == p.writer && p.behind[answers[0].token().keyRange] {
		committed += " while the read region is behind"
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

// readChanges reads the feed of a region, after the positions of the read before, or of a read
// in the other region which is not ahead of this one.
func (p *regionalPair) readChanges() error {
	region := p.anyRegion()
	name := "feed of the " + p.role(region)
	if p.dice.IntN(4) == 0 && (region == p.writer || !p.paused) {
		p.adoptPositions(region)
		name += ", after positions of the other region"
	}
	return p.readToEnd(name, region)
}

// readAhead reads the feed of the read region after positions that it has not reached, and
// again when it has.
func (p *regionalPair) readAhead() error {
	// Positions of Microsoft's account do not pass items that were deleted before the read. The
	// read region could still have such an item after a pause.
	if err := p.pause(false); err != nil {
		return err
	}
	if err := p.readToEnd("feed of the write region", p.writer); err != nil {
		return err
	}
	if err := p.pause(true); err != nil {
		return err
	}
	if _, err := p.touch(p.anyItem()); err != nil {
		return err
	}
	if err := p.readToEnd("feed of the write region", p.writer); err != nil {
		return err
	}
	p.adoptPositions(1 - p.writer)
	if err := p.readToEnd("feed of the read region, after positions ahead of it", 1-p.writer); err != nil {
		return err
	}
	if err := p.pause(false); err != nil {
		return err
	}
	return p.readToEnd("feed of the read region, after positions that were ahead of it", 1-p.writer)
}

// readToEnd reads the feed of a region until all ranges answer 304.
func (p *regionalPair) readToEnd(name string, region int) error {
	size := strconv.Itoa([]int{1, 3, 100}[p.dice.IntN(3)])
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

// pauseAfterWrite pauses the replication at once after a write, which has no lag.
func (p *regionalPair) pauseAfterWrite() error {
	d := p.anyItem()
	if err := p.pause(false); err != nil {
		return err
	}
	if _, err := p.touch(d); err != nil {
		return err
	}
	if err := p.pause(true); err != nil {
		return err
	}
	answers, err := p.in(1-p.writer, d.readSession)
	if err != nil {
		return err
	}
	p.noteCodes("read in the read region, in the session of a write before the pause", answers)
	return p.pause(false)
}

// createInReadRegion creates a container in the region that takes no writes.
func (p *regionalPair) createInReadRegion() error {
	answers, err := p.in(1-p.writer, func(*account) request { return containerRequest(map[string]any{"id": "refused"}) })
	if err == nil {
		p.noteCodes("create of a container in the read region", answers)
	}
	return err
}

// splitRange splits a range after the read region has got all writes, and reads the feeds of
// its children after the positions of their parent: the list of ranges on Microsoft's account
// does not name earlier ancestors.
func (p *regionalPair) splitRange() error {
	if len(p.keyRanges[0]) >= 16 || p.dice.IntN(4) > 0 {
		return nil
	}
	if err := p.pause(false); err != nil {
		return err
	}
	n := p.dice.IntN(len(p.keyRanges[0]))
	for i, a := range p.accounts {
		body := map[string]any{"database": database, "container": items, "range": p.keyRanges[i][n].id}
		if err := a.manage(http.MethodPost, "split", body); err != nil {
			return err
		}
	}
	var err error
	if p.keyRanges, err = p.readRanges(); err != nil {
		return err
	}
	for region := range regionNames {
		if err := p.readToEnd("feed of the "+p.role(region)+" after a split", region); err != nil {
			return err
		}
	}
	return nil
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
	oldVersion, err := strconv.Atoi(oldToken.version)
	newVersion, newErr := strconv.Atoi(newToken.version)
	switch {
	case err != nil || newErr != nil:
		return "no version"
	case newVersion > oldVersion:
		return "later version"
	case newVersion < oldVersion:
		return "earlier version"
	}
	return "same version"
}

func lsnFact(oldToken, newToken sessionToken) string {
	oldLSN, _ := strconv.Atoi(oldToken.lsn)
	newLSN, _ := strconv.Atoi(newToken.lsn)
	if oldLSN > 0 && newLSN == oldLSN+1 {
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
	answers, err := p.in(p.offline, d.read)
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
