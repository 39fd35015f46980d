package cosmos

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"golang.org/x/net/http/httpguts"
)

// Header names, from azure-cosmos-dotnet-v3 HttpConstants.HttpHeaders.
const (
	headerActivityID       = "x-ms-activity-id"
	headerCapabilities     = "x-ms-cosmos-sdk-supportedcapabilities"
	headerCharge           = "x-ms-request-charge"
	headerContinuation     = "x-ms-continuation"
	headerCrossPartition   = "x-ms-documentdb-query-enablecrosspartition"
	headerDate             = "x-ms-date"
	headerEndEPK           = "x-ms-end-epk"
	headerFeedMode         = "A-IM"
	headerIntendedRID      = "x-ms-cosmos-intended-collection-rid"
	headerIsQuery          = "x-ms-documentdb-isquery"
	headerIsUpsert         = "x-ms-documentdb-is-upsert"
	headerLSN              = "lsn"
	headerMaxItems         = "x-ms-max-item-count"
	headerOfferThroughput  = "x-ms-offer-throughput"
	headerPartitionKey     = "x-ms-documentdb-partitionkey"
	headerPartitionRangeID = "x-ms-documentdb-partitionkeyrangeid"
	headerReadKeyType      = "x-ms-read-key-type"
	headerRetryAfter       = "x-ms-retry-after-ms"
	headerSessionToken     = "x-ms-session-token"
	headerStartEPK         = "x-ms-start-epk"
	headerSubStatus        = "x-ms-substatus"
	headerVersion          = "x-ms-version"
	headerWireFormat       = "x-ms-cosmos-changefeed-wire-format-version"
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

func setCommonHeaders(h http.Header) {
	h.Set(headerVersion, apiVersion)
	h.Set(headerCapabilities, capabilities)
	h.Set("Accept", "application/json")
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
	ru, _ := strconv.ParseFloat(h.Get(headerCharge), 64)
	return ru
}

func date(h http.Header) time.Time {
	t, _ := http.ParseTime(h.Get("Date"))
	return t
}

func etag(h http.Header) azcore.ETag { return azcore.ETag(h.Get("Etag")) }
