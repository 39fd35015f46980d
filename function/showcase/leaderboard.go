package main

import (
	"context"
	"fmt"

	"halley/handlers/redis/leaderboard"
)

// startLeaderboard keeps the boards in the embedded Redis.
func startLeaderboard(s *stage) (*part, error) {
	url, err := s.redisURL()
	if err != nil {
		return nil, err
	}
	boards := leaderboard.New(s.redisClient(), "leaderboard:")
	return &part{
		settings: map[string]string{"HALLEY_LEADERBOARD_REDIS_URL": url},
		read:     readBoard(s.redisClient(), "leaderboard:"+walkGame),
		scores:   true,
		compare: func(ctx context.Context, written []document) (string, error) {
			best := bestScores(written)
			for name, players := range best {
				standings, err := boards.Top(ctx, name, len(players)+1)
				if err != nil {
					return "", err
				}
				if len(standings) != len(players) {
					return "", fmt.Errorf("the board of %s has %d players, the container %d", name, len(standings), len(players))
				}
				for _, one := range standings {
					if players[one.Player] != one.Score {
						return "", fmt.Errorf("the board of %s has %v for %s, the container %v", name, one.Score, one.Player, players[one.Player])
					}
				}
			}
			return fmt.Sprintf("%d boards in Redis have the best of %d results for each player", len(best), len(written)), nil
		},
	}, nil
}

// bestScores returns the best score of each player by game. The load corrects scores
// upwards only, so the last version of a result is its best.
func bestScores(written []document) map[string]map[string]float64 {
	best := map[string]map[string]float64{}
	for _, d := range written {
		if best[d.Game] == nil {
			best[d.Game] = map[string]float64{}
		}
		best[d.Game][d.Player] = max(best[d.Game][d.Player], d.Score)
	}
	return best
}
