package cosmos

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"golang.org/x/net/http/httpguts"
)

// Header names, from azure-cosmos-dotnet-v3 HttpConstants.HttpHeaders, in the canonical
// form of net/http: a name in another form is converted at each use.
const (
	headerActivityID       = "X-Ms-Activity-Id"
	headerBatchAtomic      = "X-Ms-Cosmos-Batch-Atomic"
	headerBatchOrdered     = "X-Ms-Cosmos-Batch-Ordered"
	headerCapabilities     = "X-Ms-Cosmos-Sdk-Supportedcapabilities"
	headerCharge           = "X-Ms-Request-Charge"
	headerCommittedLSN     = "X-Ms-Global-Committed-Lsn"
	headerContinuation     = "X-Ms-Continuation"
	headerCrossPartition   = "X-Ms-Documentdb-Query-Enablecrosspartition"
	headerDate             = "X-Ms-Date"
	headerEndEPK           = "X-Ms-End-Epk"
	headerFeedMode         = "A-Im"
	headerIntendedRID      = "X-Ms-Cosmos-Intended-Collection-Rid"
	headerIsBatch          = "X-Ms-Cosmos-Is-Batch-Request"
	headerIsQuery          = "X-Ms-Documentdb-Isquery"
	headerIsUpsert         = "X-Ms-Documentdb-Is-Upsert"
	headerItemCount        = "X-Ms-Item-Count"
	headerLSN              = "Lsn"
	headerMaxItems         = "X-Ms-Max-Item-Count"
	headerOfferThroughput  = "X-Ms-Offer-Throughput"
	headerPartitionKey     = "X-Ms-Documentdb-Partitionkey"
	headerPartitionRangeID = "X-Ms-Documentdb-Partitionkeyrangeid"
	headerReadKeyType      = "X-Ms-Read-Key-Type"
	headerRetryAfter       = "X-Ms-Retry-After-Ms"
	headerSessionToken     = "X-Ms-Session-Token"
	headerStartEPK         = "X-Ms-Start-Epk"
	headerSubStatus        = "X-Ms-Substatus"
	headerVersion          = "X-Ms-Version"
	headerWireFormat       = "X-Ms-Cosmos-Changefeed-Wire-Format-Version"
)

const (
	// apiVersion is the version that @azure/cosmos 4 and azure-cosmos-dotnet-v3
	// send.
	apiVersion = "2020-07-15"

	// capabilities tells the service that the client understands merged ranges
	// (1) and start times on them (2): azure-cosmos-dotnet-v3
	// SDKSupportedCapabilities.
	capabilities = "3"

	incrementalFeed  = "Incremental Feed"
	fullFidelityFeed = "Full-Fidelity Feed"

	// wireFormat is the format with metadata: azure-cosmos-dotnet-v3
	// ChangeFeedModeFullFidelity.ChangeFeedWireFormatVersion.
	wireFormat = "2021-09-15"
)

// loggedHeaders are the headers that azcore's log may show; it redacts all
// others.
var loggedHeaders = []string{
	headerActivityID, headerCharge, headerEndEPK, headerFeedMode, headerMaxItems,
	headerPartitionRangeID, headerRetryAfter, headerStartEPK, headerSubStatus, headerLSN,
}

// mostHeaders is the number of headers that most requests have at most: a map of so many is made at once.
const mostHeaders = 14

// Values of headers that are in most requests. They are never changed in place.
var (
	acceptValue       = []string{"application/json"}
	capabilitiesValue = []string{capabilities}
	versionValue      = []string{apiVersion}
	incrementalValue  = []string{incrementalFeed}
)

// newHeader returns a header with what is in each request.
func newHeader() http.Header {
	h := make(http.Header, mostHeaders)
	h["Accept"], h[headerCapabilities], h[headerVersion] = acceptValue, capabilitiesValue, versionValue
	return h
}

// attemptHeader gives each attempt the header of its operation. Policies before it replace values by
// setting their own.
type attemptHeader struct{}

// Do implements azcore's policy.
func (attemptHeader) Do(req *policy.Request) (*http.Response, error) {
	var op *operation
	req.OperationValue(&op)
	header := maps.Clone(op.header)
	maps.Copy(header, req.Raw().Header)
	req.Raw().Header = header
	return req.Next()
}

// checkHeader rejects values that cannot be sent, such as an etag or a
// continuation that was damaged in storage.
func checkHeader(h http.Header) error {
	for name, values := range h {
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("value for header %s contains a control character", name)
			}
		}
	}
	return nil
}

func charge(h http.Header) float64 {
	ru, _ := strconv.ParseFloat(value(h, headerCharge), 64)
	return ru
}

// value is h.Get for a name in its canonical form.
func value(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// number returns a header that is a whole number, 0 if it is absent.
func number(h http.Header, name string) int64 {
	text := value(h, name)
	if text == "" {
		return 0
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func etag(h http.Header) azcore.ETag { return azcore.ETag(value(h, "Etag")) }
