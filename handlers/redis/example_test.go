package redis_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"halley/handlers/redis"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// A handler that keeps the total of the orders of each country. The effect takes back what
// the former version of an order has added.
func Example() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	defer client.Close()

	store := redis.New(client, "orders:position:", `
local function effect(memory, country, amount)
	local former, before = string.match(memory, '^(.*) (.*)$')
	if former then redis.call('INCRBY', 'total:' .. former, -before) end
	redis.call('INCRBY', 'total:' .. country, amount)
	return country .. ' ' .. amount
end`)
	var handler trigger.Handler = func(ctx context.Context, b trigger.Batch) error {
		return store.Apply(ctx, b, func(c trigger.Change) ([]any, error) {
			var order struct {
				Country string
				Amount  int
			}
			if err := c.Decode(&order); err != nil {
				return nil, trigger.Skip(err)
			}
			return []any{order.Country, order.Amount}, nil
		})
	}

	ctx := context.Background()
	first := triggertest.Upsert(`{"id":"1","country":"fr","amount":5,"_etag":"a"}`)
	second := triggertest.Upsert(`{"id":"1","country":"fr","amount":7,"_etag":"b"}`)
	second.LSN = first.LSN + 1
	for _, c := range []trigger.Change{first, first, second, first} {
		if err := handler(ctx, trigger.NewBatch(c)); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(client.Get(ctx, "total:fr").Val())
	// Output: 7
}
