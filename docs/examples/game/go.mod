module example.com/game

go 1.26.0

replace (
	halley/function/app => ../../../function/app
	halley/function/app/azurestorage => ../../../function/app/azurestorage
	halley/function/app/otel => ../../../function/app/otel
	halley/handlers => ../../../handlers
	halley/handlers/archive => ../../../handlers/archive
	halley/handlers/postgres => ../../../handlers/postgres
	halley/handlers/push => ../../../handlers/push
	halley/handlers/redis => ../../../handlers/redis
	halley/handlers/search/bleve => ../../../handlers/search/bleve
	halley/handlers/stream/kafka => ../../../handlers/stream/kafka
	halley/handlers/stream/nats => ../../../handlers/stream/nats
	halley/trigger => ../../../trigger
	halley/trigger/deadletter/azure => ../../../trigger/deadletter/azure
)

require (
	github.com/SherClockHolmes/webpush-go v1.4.0
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/spf13/cobra v1.10.2
	halley/function/app v0.0.0
	halley/handlers v0.0.0
	halley/handlers/push v0.0.0
	halley/handlers/redis v0.0.0
	halley/trigger v0.0.0
)

require (
	github.com/Azure/azure-sdk-for-go/sdk/azcore v1.24.0 // indirect
	github.com/Azure/azure-sdk-for-go/sdk/azidentity v1.15.0 // indirect
	github.com/Azure/azure-sdk-for-go/sdk/internal v1.13.0 // indirect
	github.com/AzureAD/microsoft-authentication-library-for-go v1.10.1 // indirect
	github.com/VictoriaMetrics/metrics v1.45.0 // indirect
	github.com/aws/aws-lambda-go v1.55.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/golang-jwt/jwt/v5 v5.3.1 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/kelseyhightower/envconfig v1.4.0 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/pkg/browser v0.0.0-20240102092130-5ac0b6a4141c // indirect
	github.com/redis/go-redis/v9 v9.17.3 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/twmb/murmur3 v1.2.2 // indirect
	github.com/valyala/fastrand v1.1.0 // indirect
	github.com/valyala/histogram v1.2.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/term v0.47.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
