package cosmos

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"
)

// action is what to do after one try.
type action int

const (
	stop        action = iota // return the failure
	succeed                   // return the answer
	throttle                  // repeat after the wait that the service asks for
	backoff                   // repeat after a backoff
	askRegions                // read the account, then repeat
	renewToken                // repeat once with a new token
	forgetNames               // repeat once without what is cached
)

// verdict is the judgement on one try.
type verdict struct {
	action      action
	wait        time.Duration // of throttle; 0 when the service gave none
	move        bool          // another region may do better
	unreachable bool          // no connection could be made
	recreated   bool          // the container was created anew
	unknown     bool          // a write may have been applied
}

// judge decides what to do about the answer or the error of one try. A write
// is repeated only where it was certainly not applied. On a 503 the official
// SDKs do not repeat a write in the region that answered it, so it is not
// repeated here.
func judge(op *operation, resp *http.Response, err error, token bool) verdict {
	switch {
	case resp == nil:
		return judgeError(op, err)
	case errors.Is(err, errTooLarge):
		return verdict{}
	case err != nil: // of a body; only reads have one
		return verdict{action: backoff, move: true}
	case success(resp):
		return verdict{action: succeed}
	}
	return judgeStatus(op, resp, token)
}

func judgeStatus(op *operation, resp *http.Response, token bool) verdict {
	sub := substatus(resp)
	switch status := resp.StatusCode; {
	case status == 429:
		return verdict{action: throttle, wait: retryAfter(resp)}
	case status == 449:
		return verdict{action: backoff}
	case status == 401 && token:
		return verdict{action: renewToken}
	case status == 403 && (sub == 3 || sub == 1008):
		return verdict{action: askRegions}
	case status == 404 && sub == 1002:
		return verdict{action: backoff, move: true}
	case status == 400 && sub == 1024:
		return verdict{recreated: true}
	case status == 410:
		return judgeGone(op, sub)
	case status == http.StatusNotImplemented:
		return verdict{}
	case status == 408 || status >= 500:
		if op.write {
			return verdict{unknown: true}
		}
		return verdict{action: backoff, move: true}
	}
	return verdict{}
}

// judgeGone is about 410. Who names a physical range must learn that it is
// gone, and who holds a continuation that the container is another one.
func judgeGone(op *operation, sub int) verdict {
	switch {
	case sub == 1000 && op.feed:
		return verdict{recreated: true}
	case sub == 1000:
		return verdict{action: forgetNames, recreated: true}
	case sub == 1008, !op.feed && (sub == 1002 || sub == 1007):
		return verdict{action: backoff}
	}
	return verdict{}
}

func judgeError(op *operation, err error) verdict {
	switch {
	case isFinal(err):
		return verdict{}
	case neverSent(err):
		return verdict{action: backoff, unreachable: true}
	case op.write:
		return verdict{unknown: true}
	}
	return verdict{action: backoff, move: true}
}

// isFinal tells of errors that come before the request and that repeating does
// not mend: no token could be got, or the server is not who it should be.
func isFinal(err error) bool {
	var final interface{ NonRetriable() }
	var certificate *tls.CertificateVerificationError
	var host x509.HostnameError
	return errors.As(err, &final) || errors.As(err, &certificate) || errors.As(err, &host)
}

// neverSent tells of errors that prove that the request did not leave, as
// azcosmos classifyNetworkError does.
func neverSent(err error) bool {
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var dial *net.OpError
	return errors.As(err, &dns) || errors.As(err, &record) ||
		errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect")
}
