package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// part is the rows of one call that go to one partition of time: one blob.
type part struct {
	folder  string // dt=2026-11-22/hour=12/
	rangeID string
	records []Record
}

// blobName names the part by its range and its positions:
//
//	dt=2026-11-22/hour=12/RANGE_FIRST_LAST_COUNT_DIGEST.parquet
//
// First and last are LSNs. The digest is that of the changes, in their order. So a batch
// that is redelivered with the same changes has the same name, and a batch that was cut
// differently, or has newer versions of some documents, has another name.
func (p part) blobName(extension string) string {
	digest := sha256.New()
	first, last := p.records[0].LSN, p.records[0].LSN
	for _, r := range p.records {
		fmt.Fprintln(digest, r.Change)
		first, last = min(first, r.LSN), max(last, r.LSN)
	}
	return fmt.Sprintf("%s%s_%020d_%020d_%d_%s%s", p.folder, safeToken(p.rangeID), first, last, len(p.records), hex.EncodeToString(digest.Sum(nil)[:12]), extension)
}

var tokenPattern = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// safeToken makes a lease token part of a file's name; the digest keeps names apart.
func safeToken(token string) string {
	if safe := tokenPattern.ReplaceAllString(token, "-"); safe != "" {
		return safe
	}
	return "-"
}

// Partition is the length of the partitions of time.
type Partition string

// The partitions: hourly ones suit containers with thousands of changes an hour.
const (
	Hourly Partition = "hour"
	Daily  Partition = "day"
)

// folder returns the folder of a time, as Hive and Spark name partitions.
func (p Partition) folder(t time.Time) string {
	if p == Daily {
		return t.UTC().Format("dt=2006-01-02/")
	}
	return t.UTC().Format("dt=2006-01-02/hour=15/")
}

// parts divides the records of a call by their time, in order.
func (p Partition) parts(rangeID string, records []Record) (all []part) {
	index := map[string]int{}
	for _, r := range records {
		folder := p.folder(r.Time)
		i, ok := index[folder]
		if !ok {
			i = len(all)
			index[folder] = i
			all = append(all, part{folder: folder, rangeID: rangeID})
		}
		all[i].records = append(all[i].records, r)
	}
	return all
}

// folderOf returns the partition of time that a blob is in, with a slash at the end.
func folderOf(name string) string { return name[:strings.LastIndexByte(name, '/')+1] }
