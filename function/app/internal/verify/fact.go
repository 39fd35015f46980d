package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"halley/trigger/cosmos"
)

// fact is one behaviour of the service that Halley relies on. The table of all facts is
// the content of docs/verify.md, too.
type fact struct {
	name     string
	relies   string // what of Halley relies on it
	expected string
	meaning  string // for the user, if the account differs
	grave    bool   // a difference means that Halley must not be used
	needs    need
	cost     price
	// probe returns what it has seen. A difference is the error of differs, a fact that
	// this account cannot show that of unverified.
	probe func(context.Context, *session) (seen string, err error)
}

// need is what a fact asks of the key, the containers or the command line.
type need int

const (
	needWrites   need = 1 << iota // a key that may write
	needTTL                       // a monitored container with a default time to live
	needVersions                  // a monitored container that keeps all versions
	needCreate                    // a database that the run has created containers in
	needThrottle                  // the flag --throttle
	needSplit                     // the flag --split
)

// price is what a fact costs, in request units.
type price struct {
	fixed    float64
	perRange float64 // for each range of the monitored container
}

// Charges of single requests with small documents, as a hosted account has answered in
// October 2026.
const (
	costRead    = 1.0
	costCreate  = 6.5
	costReplace = 10.5
	costDelete  = 6.7
	costRefused = 1.3
	costQuery   = 2.9
	costManage  = 3.0 // creation or deletion of a container or database
)

// row returns the line of the report about a fact. Its error ends the run: the network,
// the credential or the limit does not allow more. cut says that a request got no answer.
func (f fact) row(seen string, err error, cut bool) (Row, error) {
	r := Row{Fact: f.name, Verdict: VerdictSame, Expected: f.expected, Seen: seen, Relies: f.relies}
	var difference *differenceError
	var reason *unverifiedError
	var answer *cosmos.Error
	switch {
	case err == nil:
		return r, nil
	case errors.As(err, &reason):
		r.Verdict, r.Seen = VerdictUnverified, reason.reason
		return r, nil
	case errors.As(err, &difference):
		r.Seen = difference.seen
	case errors.As(err, &answer) && !endsRun(answer):
		r.Seen = "the answer was " + statusText(answer.Status, answer.SubStatus)
	case answer == nil && !cut && !errors.Is(err, context.Canceled):
		r.Seen = err.Error() // answers arrived, and Halley cannot work with them
	default:
		return r, err
	}
	r.Verdict, r.Meaning, r.Grave = VerdictDiffers, f.meaning, f.grave
	return r, nil
}

// endsRun reports whether an answer says nothing about the service's behaviour, and later
// requests would get it, too.
func endsRun(answer *cosmos.Error) bool {
	switch answer.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// statusText is a status with its substatus, if it has one.
func statusText(status, substatus int) string {
	if substatus == 0 {
		return fmt.Sprint(status)
	}
	return fmt.Sprintf("%d/%d", status, substatus)
}

// wantStatus returns a difference unless err is an answer with one of the statuses.
func wantStatus(request string, err error, statuses ...int) error {
	if err == nil {
		return differs("%s succeeded", request)
	}
	status, substatus := cosmos.Status(err)
	if status == 0 {
		return err
	}
	for _, wanted := range statuses {
		if status == wanted {
			return nil
		}
	}
	return differs("%s was answered with %s", request, statusText(status, substatus))
}
