package metrics

import (
	"net/http"
	"strconv"
	"strings"
)

// Requests to Cosmos DB.
var (
	requests     = counter(requestsName, "Requests to Cosmos DB, each attempt, by outcome.", operationLabel, outcomeLabel)
	requestUnits = counter(requestUnitsName, "Request units that Cosmos DB has charged.", operationLabel)
	polls        = counter(pollsName, "Reads of the feed by outcome: changes, idle, throttled or failed.", outcomeLabel)
)

func (r registry) countRequest(req *http.Request, resp *http.Response, err error) {
	operation := operationOf(req)
	r.add(requests, 1, operation, requestOutcome(resp, err))
	if operation == operationFeed {
		r.add(polls, 1, pollOutcome(resp, err))
	}
	if err == nil {
		if units, err := strconv.ParseFloat(resp.Header.Get("X-Ms-Request-Charge"), 64); err == nil && units > 0 {
			if operation == operationFeed && resp.StatusCode == http.StatusNotModified {
				operation = operationPoll
			}
			r.add(requestUnits, units, operation)
		}
	}
}

// Operations of requests.
const (
	operationFeed  = "feed"
	operationPoll  = "poll"  // of units: a read of the feed that found nothing new
	operationQuery = "query" // lists leases and dead letters
	operationRead  = "read"  // a document
	operationWrite = "write" // a document, such as a lease
	operationMeta  = "meta"  // the account, containers and ranges
)

func operationOf(r *http.Request) string {
	_, path, documents := strings.Cut(r.URL.Path, "/docs")
	switch {
	case r.Header.Get("A-IM") != "":
		return operationFeed
	case !documents:
		return operationMeta
	case path == "" && strings.Contains(r.Header.Get("Content-Type"), "query+json"):
		return operationQuery
	case r.Method == http.MethodGet:
		return operationRead
	}
	return operationWrite
}

// Outcomes of requests and polls.
const (
	outcomeOK        = "ok"
	outcomeConflict  = "conflict" // another host was faster
	outcomeThrottled = "throttled"
	outcomeError     = "error"
	outcomeChanges   = "changes"
	outcomeIdle      = "idle"
)

func requestOutcome(resp *http.Response, err error) string {
	switch {
	case err != nil:
		return outcomeError
	case resp.StatusCode == http.StatusTooManyRequests:
		return outcomeThrottled
	case resp.StatusCode == http.StatusConflict, resp.StatusCode == http.StatusPreconditionFailed:
		return outcomeConflict
	case resp.StatusCode >= http.StatusBadRequest:
		return outcomeError
	}
	return outcomeOK
}

func pollOutcome(resp *http.Response, err error) string {
	switch {
	case err != nil:
		return outcomeFailed
	case resp.StatusCode == http.StatusOK:
		return outcomeChanges
	case resp.StatusCode == http.StatusNotModified:
		return outcomeIdle
	case resp.StatusCode == http.StatusTooManyRequests:
		return outcomeThrottled
	}
	return outcomeFailed
}
