package cosmos

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"halley/trigger/redact"
)

// ErrOutcomeUnknown reports that a write was sent and no certain answer
// arrived: the service may or may not have applied it. Read the document to
// find out. Test with [errors.Is]; the error also wraps its cause.
var ErrOutcomeUnknown = errors.New("outcome of the write is unknown")

// Error is an answer of the service that is not a success.
//
// https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb
type Error struct {
	Op         string        // the operation, for example "replace document dbs/games/colls/leases/docs/a"
	Status     int           // HTTP status
	SubStatus  int           // x-ms-substatus; 0 when absent
	Code       string        // the body's code, for example "NotFound"
	Message    string        // first line of the body's message, at most maxMessage bytes
	ActivityID string        // to quote to Azure support
	RetryAfter time.Duration // x-ms-retry-after-ms, else Retry-After; 0 when absent, at most a minute
	Account    string        // endpoint that was given to [NewClient]
	Charge     float64       // request units of all tries

	// ContainerMissing says that a 404 is about the container or its database, and not
	// about a document.
	ContainerMissing bool

	owner string // resource link in the signature of the request
}

// Error returns the operation, the answer of the service and, if the cause is
// known, how to fix it.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d", e.Op, e.Status)
	if e.SubStatus != 0 {
		fmt.Fprintf(&b, "/%d", e.SubStatus)
	}
	if text := cmp.Or(e.Code, http.StatusText(e.Status)); text != "" && text != strconv.Itoa(e.Status) {
		b.WriteString(" " + text)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if advice := e.advice(); advice != "" {
		b.WriteString(" (" + advice + ")")
	}
	return b.String()
}

// advice returns the fix if status and substatus determine the cause, else "".
func (e *Error) advice() string {
	if e.ContainerMissing {
		return "create it, or correct the names: " + e.names()
	}
	switch [2]int{e.Status, e.SubStatus} {
	case [2]int{400, 1001}:
		return "the partition key of the request differs from the one in the document: pass the value at the container's partition key path"
	case [2]int{400, 1004}:
		return "the gateway cannot serve this query across partitions: set PartitionKey or remove ORDER BY and aggregates"
	case [2]int{403, 3}, [2]int{403, 1008}:
		return "the region does not accept this request; the account may be failing over"
	case [2]int{410, 1000}, [2]int{400, 1024}:
		return "the container was deleted and created again: old continuations are not valid for it"
	case [2]int{413, 0}:
		return "the limit of a document is 2 MB"
	}
	switch e.Status {
	case 401:
		return "wrong or rotated key, or a token of another tenant: check the credential, and that it belongs to this endpoint"
	case 403:
		return e.forbidden()
	case 429:
		return "the request rate exceeds the throughput: raise the container's RU/s or lower the load"
	}
	return ""
}

// names returns the names in the link, of which one may be wrong.
func (e *Error) names() string {
	parts := strings.Split(e.owner, "/")
	if len(parts) < 4 {
		return fmt.Sprintf("database %q", parts[len(parts)-1])
	}
	return fmt.Sprintf("database %q, container %q", parts[1], parts[3])
}

func (e *Error) forbidden() string {
	if action := permission(e.Message); action != "" {
		return fmt.Sprintf("grant the identity a role with the data action %s: az cosmosdb sql role assignment create --account-name NAME --resource-group GROUP --role-definition-id ROLE --principal-id %s --scope %q",
			action, cmp.Or(between(e.Message, "principal [", "]"), "PRINCIPAL"), e.scope())
	}
	if strings.Contains(e.Message, "at the current time") || strings.Contains(e.Message, "x-ms-date") {
		return "correct the clock of this machine"
	}
	return "check the account's firewall and the roles of the identity"
}

// scope is the narrowest scope of a role for the request: its container, database or account.
func (e *Error) scope() string {
	parts := strings.Split(e.owner, "/")
	return "/" + strings.Join(parts[:min(len(parts), 4)], "/")
}

// between returns the text between two others, or "".
func between(text, opening, closing string) string {
	_, text, _ = strings.Cut(text, opening)
	text, _, found := strings.Cut(text, closing)
	if !found {
		return ""
	}
	return text
}

// permission returns the data action in a message of the service, or "".
func permission(message string) string {
	const root = "Microsoft.DocumentDB/"
	i := strings.Index(message, root)
	if i < 0 {
		return ""
	}
	end := strings.IndexFunc(message[i:], func(r rune) bool {
		return !unicode.IsLetter(r) && !strings.ContainsRune("./*", r)
	})
	if end < 0 {
		end = len(message) - i
	}
	return strings.TrimRight(message[i:i+end], ".")
}

// Status returns status and substatus of the [Error] in err, or 0, 0 if there
// is none.
func Status(err error) (status, substatus int) {
	if err == nil {
		return 0, 0
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Status, e.SubStatus
	}
	return 0, 0
}

// ChargeOf returns the request units of the [Error] in err, 0 if there is none.
func ChargeOf(err error) float64 {
	var e *Error
	if err != nil && errors.As(err, &e) {
		return e.Charge
	}
	return 0
}

// IsNotFound reports whether err is a 404: the document, its container or its
// database does not exist, or the replica that answered has not seen it yet
// (404/1002). Use [IsDocumentNotFound] to tell these apart.
func IsNotFound(err error) bool { return isStatus(err, http.StatusNotFound) }

// IsDocumentNotFound reports whether err says that the document does not exist and its
// container does. A missing container and a replica that is behind (404/1002) do not
// count.
func IsDocumentNotFound(err error) bool {
	return isStatus(err, http.StatusNotFound, 0) && !isContainerMissing(err)
}

// isContainerMissing reports whether err is a 404 of a container or a database.
func isContainerMissing(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.ContainerMissing || isStatus(e, http.StatusNotFound, subOwnerMissing))
}

// IsConflict reports whether err is a 409: the document, container or database
// to create exists already.
func IsConflict(err error) bool { return isStatus(err, http.StatusConflict) }

// IsBehindSession reports whether no region had reached the session of a read, err being its error.
func IsBehindSession(err error) bool { return isStatus(err, http.StatusNotFound, subSessionBehind) }

// IsPreconditionFailed reports whether err is a 412: the document has changed
// since the etag of a conditional write was read. Nothing was written.
func IsPreconditionFailed(err error) bool { return isStatus(err, http.StatusPreconditionFailed) }

// IsThrottled reports whether the service refused the request because of its rate
// or load (429, 449, 503), and how long it asked the caller to wait, if it did.
func IsThrottled(err error) (throttled bool, retryAfter time.Duration) {
	var e *Error
	if !errors.As(err, &e) {
		return false, 0
	}
	switch e.Status {
	case http.StatusTooManyRequests, statusRetryWith, http.StatusServiceUnavailable:
		return true, e.RetryAfter
	}
	return false, 0
}

// IsUnauthorized reports whether err is a 401: the account refuses the credential of the
// client. A token has been renewed once by then, so only another credential helps.
func IsUnauthorized(err error) bool { return isStatus(err, http.StatusUnauthorized) }

// isStatus reports whether err holds an [Error] with the status and, if any
// substatuses are given, one of them.
func isStatus(err error, status int, substatus ...int) bool {
	s, sub := Status(err)
	return s == status && s != 0 && (len(substatus) == 0 || slices.Contains(substatus, sub))
}

// subOwnerMissing is the substatus of a 404 with which older gateways, and clients that
// talk to partitions themselves, name a missing container. The gateway of a hosted account
// answered such requests without a substatus, from the master partition (recorded answer
// of a hosted account, October 2026).
const subOwnerMissing = 1003

// subSessionBehind is the substatus of a 404 of a replica that has not reached the session.
const subSessionBehind = 1002

// entityMissing is in the text of a 404 that a data partition answers, whose container
// therefore exists (recorded answer of a hosted account, October 2026).
const entityMissing = "Entity with the specified id does not exist"

// maxMessage bounds the service's text in an error, in bytes.
const maxMessage = 400

// newError returns the error for an answer that is not a success.
func newError(op *operation, resp *http.Response, body []byte) *Error {
	e := &Error{
		Op:         op.String(),
		Status:     resp.StatusCode,
		SubStatus:  substatus(resp),
		ActivityID: resp.Header.Get(headerActivityID),
		RetryAfter: retryAfter(resp),
		Charge:     op.charge,
		owner:      op.parent,
	}
	e.ContainerMissing = e.Status == http.StatusNotFound && (e.SubStatus == subOwnerMissing || e.SubStatus == 0 && !op.document)
	var text struct{ Code, Message string }
	if err := json.Unmarshal(body, &text); err != nil {
		if len(body) > 0 {
			e.Message = fmt.Sprintf("the answer is not from Cosmos DB (content type %s): check the endpoint and any proxy", printable(resp.Header.Get("Content-Type")))
		}
		return e
	}
	e.Code, e.Message = redact.Text(printable(text.Code)), redact.Text(printable(text.Message))
	return e
}

// printable returns the first line of s, without control characters and at most
// maxMessage bytes long.
func printable(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s))
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

func substatus(resp *http.Response) int {
	n, _ := strconv.Atoi(resp.Header.Get(headerSubStatus))
	return n
}

// longestRetryAfter bounds a wait that an answer asks for: after it the request is sent
// again. The service asks for seconds at most; a proxy may ask for anything.
const longestRetryAfter = time.Minute

// retryAfter returns x-ms-retry-after-ms, which may have a fraction, else Retry-After in
// seconds, as proxies send it, or 0.
func retryAfter(resp *http.Response) time.Duration {
	if text := resp.Header.Get(headerRetryAfter); text != "" {
		ms, _ := strconv.ParseFloat(text, 64)
		return milliseconds(ms)
	}
	seconds, _ := strconv.ParseFloat(resp.Header.Get("Retry-After"), 64)
	return milliseconds(1000 * seconds)
}

// milliseconds returns a wait that an answer asks for, at most longestRetryAfter.
func milliseconds(ms float64) time.Duration {
	if !(ms > 0) { // NaN is not
		return 0
	}
	return time.Duration(min(ms, float64(longestRetryAfter.Milliseconds())) * float64(time.Millisecond))
}
