package push

import (
	"cmp"
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/handlers"
	"halley/trigger/cosmos"
)

// Subscription is a document of the subscriptions container, whose partition
// key is /player: the player and one device, in the format of a browser's
// PushSubscription.toJSON().
//
//	{"id":"qL5c…","player":"ada","endpoint":"https://push.example/…",
//	 "keys":{"p256dh":"BNcR…","auth":"tBHI…"}}
//
// A device that is reached otherwise has a token in place of endpoint and keys:
//
//	{"id":"pR2v…","player":"ada","token":"fGx…"}
type Subscription struct {
	ID       string      `json:"id"`
	Player   string      `json:"player"`
	Endpoint string      `json:"endpoint,omitempty"`
	Keys     Keys        `json:"keys,omitzero"`
	Token    string      `json:"token,omitempty"`
	ETag     azcore.ETag `json:"_etag,omitempty"` // set by the service
}

// address is the part of the subscription that a device is reached by.
func (s Subscription) address() string { return s.Endpoint + s.Token }

// Keys are the public key and the secret of the device, base64url (RFC 8291
// section 2).
type Keys struct {
	P256dh string `json:"p256dh"`
	Auth   string `json:"auth"`
}

// NewSubscription returns the document of a player's device. Its id is derived
// from the endpoint: if a device subscribes again, its document is replaced.
func NewSubscription(player, endpoint string, keys Keys) Subscription {
	return Subscription{ID: digest(endpoint), Player: player, Endpoint: endpoint, Keys: keys}
}

// NewTokenSubscription returns the document of a player's device that has a token, such
// as that of Firebase Cloud Messaging.
func NewTokenSubscription(player, token string) Subscription {
	return Subscription{ID: digest(token), Player: player, Token: token}
}

// canonical checks the keys and returns them in base64url without padding. If one
// is invalid, the error does not contain it.
func (k Keys) canonical() (Keys, error) {
	public, err := decode(k.P256dh)
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(public)
	}
	if err != nil {
		return Keys{}, errors.New("keys.p256dh is not an uncompressed P-256 point in base64url")
	}
	auth, err := decode(k.Auth)
	if err != nil || len(auth) != 16 {
		return Keys{}, errors.New("keys.auth is not 16 bytes in base64url")
	}
	return Keys{P256dh: encode(public), Auth: encode(auth)}, nil
}

// decode reads base64 of either alphabet, with or without padding: browsers
// write the URL alphabet without padding, older libraries do not.
func decode(s string) ([]byte, error) {
	s = strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(s, "="))
	return base64.RawURLEncoding.DecodeString(s)
}

func encode(key []byte) string { return base64.RawURLEncoding.EncodeToString(key) }

// maxDevices is the number of a player's devices that are notified. If there are
// more, the latest subscriptions count.
const maxDevices = 20

// Kind is a kind of subscriptions in the container: a condition on their documents.
type Kind string

// The kinds.
const (
	WebPush Kind = "NOT IS_DEFINED(c.token)"
	Token   Kind = "IS_DEFINED(c.token)"
)

// Subscriptions are the subscriptions of one kind in their container. They have two of
// the methods of a [Channel].
type Subscriptions struct {
	container *cosmos.Container
	kind      Kind
}

// OpenSubscriptions returns the subscriptions of a kind and offers a probe of their
// container. An empty database is that of the monitored container. The error begins with
// the name of a setting.
func OpenSubscriptions(env handlers.Env, database, name string, kind Kind) (*Subscriptions, error) {
	if name == "" {
		return nil, errors.New("SUBSCRIPTIONS_CONTAINER_NAME is empty; name the container of the subscriptions")
	}
	database = cmp.Or(database, env.Database)
	container := env.Container(database, name)
	env.OfferProbe(handlers.Probe{What: "container of the subscriptions " + database + "/" + name, Try: func(ctx context.Context) error {
		if _, err := container.Properties(ctx); err != nil {
			return fmt.Errorf("%w: create it, or correct %sSUBSCRIPTIONS_CONTAINER_NAME", err, env.Prefix)
		}
		return nil
	}})
	return &Subscriptions{container, kind}, nil
}

// Devices returns a player's devices.
func (s *Subscriptions) Devices(ctx context.Context, player string) ([]Subscription, error) {
	if err := s.checkKey(ctx); err != nil {
		return nil, err
	}
	key := cosmos.NewPartitionKey(player)
	query := cosmos.Query{
		Text:         fmt.Sprintf("SELECT TOP %d * FROM c WHERE c.player = @player AND %s ORDER BY c._ts DESC", maxDevices, s.kind),
		Parameters:   []cosmos.Parameter{{Name: "@player", Value: player}},
		PartitionKey: &key,
	}
	var devices []Subscription
	for page, err := range s.container.Query(ctx, query) {
		if err != nil {
			return nil, fmt.Errorf("query subscriptions: %w", err)
		}
		for _, item := range page.Items {
			devices = append(devices, parseSubscription(item))
		}
	}
	return devices, nil
}

// parseSubscription never fails: if a document has another form, the result is a
// subscription that cannot be used.
func parseSubscription(document []byte) Subscription {
	var device Subscription
	_ = json.Unmarshal(document, &device)
	return device
}

// checkKey returns an error if the container has another partition key, because
// queries would find nothing.
func (s *Subscriptions) checkKey(ctx context.Context) error {
	properties, err := s.container.Properties(ctx)
	if err != nil {
		return fmt.Errorf("read subscriptions container: %w", err)
	}
	if paths := properties.PartitionKey.Paths; len(paths) != 1 || paths[0] != "/player" {
		return fmt.Errorf("subscriptions container %q is partitioned by %s; create it with partition key /player",
			s.container.Name(), strings.Join(paths, ", "))
	}
	return nil
}

// Remove deletes a device. If it has subscribed again since it was read, it
// stays.
func (s *Subscriptions) Remove(ctx context.Context, device Subscription) error {
	_, err := s.container.Delete(ctx, device.ID, cosmos.NewPartitionKey(device.Player), device.ETag)
	switch {
	case err == nil,
		cosmos.IsNotFound(err),
		cosmos.IsPreconditionFailed(err):
		return nil
	}
	return fmt.Errorf("remove ended subscription: %w", err)
}
