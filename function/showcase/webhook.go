package main

import (
	"context"
	"encoding/json"
	"fmt"

	"halley/handlers/webhook/receiver"
)

const webhookSecret = "whsec_c2hvd2Nhc2Ugc2VjcmV0IG9mIDMyIGJ5dGVzISE=" // of the receiver in this process

// startWebhook starts a receiver that verifies the signatures.
func startWebhook(s *stage) (*part, error) {
	r, err := receiver.Start("127.0.0.1:0", webhookSecret)
	if err != nil {
		return nil, err
	}
	s.onClose(r.Close)
	return &part{
		settings: map[string]string{
			"HALLEY_WEBHOOK_URL": r.URL(), "HALLEY_WEBHOOK_SECRETS": webhookSecret,
			"HALLEY_WEBHOOK_ALLOW_PRIVATE_ENDPOINT": "true", "HALLEY_WEBHOOK_EVENT": "result",
		},
		read: func(context.Context) (versions, error) {
			posted := versions{}
			for _, m := range r.Newest() {
				if m.Type == "result.deleted" || m.Type == "result.expired" {
					continue
				}
				if err := posted.add(m.Data.Document); err != nil {
					return nil, err
				}
			}
			return posted, nil
		},
		compare: func(_ context.Context, written []document) (string, error) {
			newest := r.Newest()
			for _, d := range written {
				var posted struct{ Version int }
				m, ok := newest[fmt.Sprintf("[%q] %s", d.Player, d.ID)]
				if !ok || json.Unmarshal(m.Data.Document, &posted) != nil || posted.Version != d.Version {
					return "", fmt.Errorf("the receiver has version %d of document %s, the container %d", posted.Version, d.ID, d.Version)
				}
			}
			return fmt.Sprintf("the receiver verified %d messages and has the last version of all %d documents; %d were repeated, under their ids",
				len(r.Messages()), len(written), r.Repeated()), nil
		},
	}, nil
}
