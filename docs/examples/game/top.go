package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"halley/handlers"
	"halley/handlers/redis/leaderboard"
	"halley/handlers/redis/redisurl"
)

// topCommand returns the command that prints the leaderboard of a game.
func topCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "top GAME",
		Short: "Print the ten best players of a game",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := redisurl.Client(handlers.URL(os.Getenv("HALLEY_LEADERBOARD_REDIS_URL")))
			if err != nil {
				return fmt.Errorf("setting HALLEY_LEADERBOARD_REDIS_URL %w", err)
			}
			return errors.Join(printTop(cmd.Context(), cmd.OutOrStdout(), leaderboard.New(client, "leaderboard:"), args[0]), client.Close())
		},
	}
}

func printTop(ctx context.Context, out io.Writer, boards *leaderboard.Boards, game string) error {
	top, err := boards.Top(ctx, game, 10)
	if err != nil {
		return err
	}
	for i, s := range top {
		if _, err := fmt.Fprintf(out, "%2d. %-10s %v\n", i+1, s.Player, s.Score); err != nil {
			return err
		}
	}
	return nil
}
