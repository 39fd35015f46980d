// Scaler runs KEDA's azure-cosmosdb scaler once, as when KEDA's operator polls,
// and prints the metric as JSON. The arguments are metadata of the trigger,
// name=value; the environment variable OUTSIDE_CONNECTION is the connection
// string.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	metadata := map[string]string{"connectionFromEnv": "OUTSIDE_CONNECTION"}
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		metadata[name] = value
	}
	scaler, err := scalers.NewAzureCosmosDBScaler(&scalersconfig.ScalerConfig{
		TriggerMetadata: metadata,
		ResolvedEnv:     map[string]string{"OUTSIDE_CONNECTION": os.Getenv("OUTSIDE_CONNECTION")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer scaler.Close(ctx)
	metrics, active, err := scaler.GetMetricsAndActivity(ctx, "lag")
	if err != nil {
		log.Fatal(err)
	}
	err = json.NewEncoder(os.Stdout).Encode(map[string]any{"lag": metrics[0].Value.Value(), "active": active})
	if err != nil {
		log.Fatal(err)
	}
}
