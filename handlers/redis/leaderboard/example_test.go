package leaderboard_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"halley/handlers/redis/leaderboard"
	"halley/trigger"
)

func Example() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()

	boards := leaderboard.New(client, "leaderboard:")
	handle := boards.Handler()

	ctx := context.Background()
	err := handle(ctx, trigger.Batch{Changes: []trigger.Change{
		{Document: json.RawMessage(`{"id":"1","game":"chess","player":"ada","score":1200}`)},
		{Document: json.RawMessage(`{"id":"2","game":"chess","player":"bob","score":1450}`)},
		{Document: json.RawMessage(`{"id":"3","game":"chess","player":"bob","score":1100}`)},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	top, err := boards.Top(ctx, "chess", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range top {
		fmt.Println(s.Player, s.Score)
	}
	// Output:
	// bob 1450
	// ada 1200
}
