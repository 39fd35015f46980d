package emulator

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Substatus codes, Azure/azure-cosmos-dotnet-v3 SubStatusCodes.cs. Those of roles are in
// reports of users: dotnet/efcore#32197, Azure/azure-cosmos-dotnet-v3#3638.
const (
	subWriteForbidden       = 3 // of a 403: the region takes no writes
	subPartitionKeyMismatch = 1001
	subCrossPartition       = 1004
	subContainerMismatch    = 1024
	subSessionUnavailable   = 1002 // of a 404
	subRangeGone            = 1002 // of a 410
	subCompletingSplit      = 1007
	subConditionFailed      = 1110
	subBudgetSpent          = 3200
	subKeyOnly              = 5300 // of a 403: no role allows the request
	subActionMissing        = 5301 // of a 403: the roles lack a data action
)

// failure is an answer with an error status. Every handler returns one if it fails.
type failure struct {
	status, substatus int
	message           string
	retryAfter        time.Duration
	info              string // additionalErrorInfo; "" = none

	gateway  bool   // the gateway refuses, before a partition has the request
	entity   bool   // the text stands for itself, not in a list of errors
	free     bool   // nothing is charged
	resource string // kind of the resource that is missing or exists; "" = that of the path
}

func (f *failure) Error() string { return fmt.Sprintf("%d/%d: %s", f.status, f.substatus, f.message) }

func fail(status, substatus int, format string, args ...any) *failure {
	return &failure{status: status, substatus: substatus, message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *failure {
	return fail(http.StatusBadRequest, 0, format, args...)
}

// resourceTypes are the names of resources in error texts of the service, from which
// some drivers learn whether the item, the container or the database is missing.
var resourceTypes = map[string]string{"database": "Database", "container": "Collection", "item": "Document", "offer": "Offer", "user": "User", "conflict": "Conflict"}

// notFound is the answer for an absent resource. A request for parts of a database or container
// that is absent gets it from the master partition, without a substatus: recorded answer of a
// hosted account, October 2026.
func notFound(resource string) *failure {
	f := fail(http.StatusNotFound, 0, "Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found")
	if f.resource = resource; resource == "item" || resource == "conflict" {
		f.message, f.entity = "Entity with the specified id does not exist in the system. More info: https://aka.ms/cosmosdb-tsg-not-found", true
	}
	return f
}

func conflict(resource string) *failure {
	f := fail(http.StatusConflict, 0, "Resource with specified id, name, or unique index already exists.")
	if f.resource = resource; resource == "item" {
		f.message, f.entity = "Entity with the specified id already exists in the system.", true
	}
	return f
}

func preconditionFailed() *failure {
	f := fail(http.StatusPreconditionFailed, 0, "Operation cannot be performed because one of the specified precondition is not met.")
	f.entity = true
	return f
}

// byGateway marks a failure of the gateway.
func (f *failure) byGateway() *failure {
	f.gateway = true
	return f
}

// asFailure returns err if it is a failure, else an internal error with its text.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return fail(http.StatusInternalServerError, 0, "%v", err)
}

// maxMessage bounds the message of an answer, in bytes: it may quote the request.
const maxMessage = 16 << 10

// shortened is text of at most about n bytes.
func shortened(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// codes are the values of "code" in error bodies, as the service spells them.
var codes = map[int]string{
	http.StatusBadRequest:            "BadRequest",
	http.StatusUnauthorized:          "Unauthorized",
	http.StatusForbidden:             "Forbidden",
	http.StatusNotFound:              "NotFound",
	http.StatusMethodNotAllowed:      "MethodNotAllowed",
	http.StatusRequestTimeout:        "RequestTimeout",
	http.StatusConflict:              "Conflict",
	http.StatusGone:                  "Gone",
	http.StatusPreconditionFailed:    "PreconditionFailed",
	http.StatusRequestEntityTooLarge: "RequestEntityTooLarge",
	http.StatusTooManyRequests:       "TooManyRequests",
	449:                              "RetryWith",
	http.StatusInternalServerError:   "InternalServerError",
	http.StatusServiceUnavailable:    "ServiceUnavailable",
}

// response returns f as an answer. @azure/cosmos fails if the body of an error is
// empty.
func (f *failure) response() *response {
	code := codes[f.status]
	if code == "" {
		code = strconv.Itoa(f.status)
	}
	r := reply(f.status, encode(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Info    string `json:"additionalErrorInfo,omitempty"`
	}{code, shortened(f.message, 2*maxMessage), f.info}))
	if f.substatus != 0 {
		r.set("x-ms-substatus", strconv.Itoa(f.substatus))
	}
	if f.retryAfter > 0 {
		r.set("x-ms-retry-after-ms", strconv.FormatInt(milliseconds(f.retryAfter), 10))
	}
	return r
}

// milliseconds rounds up: a client that waits them has waited long enough.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
