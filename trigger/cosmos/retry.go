package cosmos

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"
)

// retryAction says how a call continues after one attempt.
type retryAction int

const (
	stop          retryAction = iota // return the error to the caller
	succeed                          // return the answer to the caller
	throttle                         // retry after the wait that the service requests
	backoff                          // retry after a backoff
	rereadAccount                    // read the account again, then retry
	renewToken                       // retry once with a new token
	dropCaches                       // retry once without the cached properties and ranges
)

// retryDecision is the outcome of decideRetry for one attempt.
type retryDecision struct {
	action         retryAction
	wait           time.Duration // of throttle; 0 if the service requested none
	nextRegion     bool          // another region may answer
	unreachable    bool          // no connection could be made
	silent         bool          // no answer came in time
	behind         bool          // the region has not reached the session
	recreated      bool          // the container was deleted and created again
	outcomeUnknown bool          // the service may have applied the write
}

// isElsewhere reports whether the attempt changed nothing, and the range of the request may be in
// another region.
func (d retryDecision) isElsewhere() bool {
	return d.unreachable || d.silent && !d.outcomeUnknown || d.action == rereadAccount
}

// decideRetry decides how a call continues after one attempt, which ended with
// an answer or an error. A write is retried only if it was certainly not
// applied. After a 503 a write is not retried, because the official SDKs do not
// retry it in the region that answered either.
func decideRetry(op *operation, resp *http.Response, err error, token bool) retryDecision {
	switch {
	case resp == nil:
		return decideByError(op, err)
	case errors.Is(err, errTooLarge), errors.Is(err, ErrNotAdmitted):
		return retryDecision{}
	case err != nil: // reading the body failed, which only reads report
		return retryDecision{action: backoff, nextRegion: true, silent: errors.Is(err, errNoAnswer)}
	case isSuccess(resp):
		return retryDecision{action: succeed}
	}
	return decideByStatus(op, resp, token)
}

func decideByStatus(op *operation, resp *http.Response, token bool) retryDecision {
	sub := substatus(resp)
	switch status := resp.StatusCode; {
	case status == 429:
		return retryDecision{action: throttle, wait: retryAfter(resp)}
	case status == 449:
		return retryDecision{action: backoff}
	case status == 401 || status == 403:
		return decideDenied(status, sub, token)
	case status == 404 && sub == subSessionBehind:
		return retryDecision{action: backoff, nextRegion: true, behind: true}
	case status == 400 && sub == 1024:
		return retryDecision{recreated: true}
	case status == 410:
		return decideGone(op, sub)
	case status == http.StatusNotImplemented:
		return retryDecision{}
	case status == 408 || status >= 500:
		if op.write {
			return retryDecision{outcomeUnknown: true}
		}
		return retryDecision{action: backoff, nextRegion: true}
	}
	return retryDecision{}
}

// decideDenied decides about a 401 and a 403: a token may have expired, and the partition
// may accept writes in another region now.
func decideDenied(status, sub int, token bool) retryDecision {
	switch {
	case status == 401 && token:
		return retryDecision{action: renewToken}
	case status == 403 && (sub == 3 || sub == 1008):
		return retryDecision{action: rereadAccount}
	}
	return retryDecision{}
}

// decideGone decides about a 410. Requests for a physical range return it to
// the caller, which must read the ranges again; feed reads also return
// 410/1000, because the caller's continuation belongs to the old container.
func decideGone(op *operation, sub int) retryDecision {
	switch {
	case sub == 1000 && op.feed:
		return retryDecision{recreated: true}
	case sub == 1000:
		return retryDecision{action: dropCaches, recreated: true}
	case sub == 1008, !op.feed && (sub == 1002 || sub == 1007):
		return retryDecision{action: backoff}
	}
	return retryDecision{}
}

func decideByError(op *operation, err error) retryDecision {
	switch {
	case isPermanent(err):
		return retryDecision{}
	case isNotSent(err):
		return retryDecision{action: backoff, unreachable: true}
	case op.write:
		return retryDecision{outcomeUnknown: true, silent: errors.Is(err, errNoAnswer)}
	}
	return retryDecision{action: backoff, nextRegion: true, silent: errors.Is(err, errNoAnswer)}
}

// isPermanent reports whether err occurred before the request was sent and
// would occur again: no token was issued, or the server's certificate is not
// valid.
func isPermanent(err error) bool {
	var final interface{ NonRetriable() }
	var certificate *tls.CertificateVerificationError
	var host x509.HostnameError
	return errors.As(err, &final) || errors.As(err, &certificate) || errors.As(err, &host)
}

// isNotSent reports whether err proves that the request was not sent, as
// azcosmos classifyNetworkError does.
func isNotSent(err error) bool {
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var dial *net.OpError
	return errors.As(err, &dns) || errors.As(err, &record) ||
		errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect")
}

// isSuccess reports whether the status is 2xx or 304.
func isSuccess(resp *http.Response) bool {
	return resp.StatusCode >= 200 && resp.StatusCode < 300 || resp.StatusCode == http.StatusNotModified
}
