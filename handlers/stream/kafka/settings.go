package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"halley/handlers"
	"halley/handlers/stream"
)

// Settings of the handler. Of a handler that the app lists as kafka they are read with
// the prefix HALLEY_KAFKA_.
type Settings struct {
	Brokers         string            `desc:"Kafka brokers to begin with, host:port, separated by commas; required"`
	Topic           string            `default:"halley.{database}.{container}" desc:"topic of the messages; {database} and {container} are replaced"`
	UpsertOp        string            `split_words:"true" default:"r" desc:"op of documents that were created or replaced, in latest-version mode: r, c or u"`
	Key             string            `default:"partitionkey" desc:"key of the messages: partitionkey, or document, which is the partition key and the id"`
	Tombstones      handlers.Toggle   `desc:"publish a message without a value after each delete, for compacted topics; needs KEY=document"`
	TLS             handlers.Toggle   `desc:"connect with TLS"`
	CAFile          string            `split_words:"true" desc:"certificates that TLS trusts, PEM; by default those of the system"`
	CertFile        string            `split_words:"true" desc:"client certificate for TLS, PEM"`
	KeyFile         string            `split_words:"true" desc:"its private key, PEM"`
	SASL            string            `desc:"mechanism to log in: plain, scram-sha-256 or scram-sha-512; by default none"`
	Username        string            `desc:"user of SASL; $ConnectionString for Azure Event Hubs"`
	Password        handlers.Secret   `desc:"password of SASL; the connection string for Azure Event Hubs"`
	Compression     string            `default:"none" desc:"compression of the messages: none, gzip, snappy, lz4 or zstd"`
	MaxMessageBytes handlers.Count    `split_words:"true" default:"1000000" desc:"largest message that the topic takes (max.message.bytes); a change with a larger one is dead-lettered"`
	PublishTimeout  handlers.Interval `split_words:"true" default:"30s" desc:"time to publish a batch and to get all acknowledgements"`
}

// Values of the setting KEY.
const (
	keyPartition = "partitionkey"
	keyDocument  = "document"
)

// batchOverhead is more than the bytes that a record adds to its key, value and headers
// in a batch of its own.
const batchOverhead = 512

// codecs are the values of the setting COMPRESSION.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// check returns an error that names the first bad setting, without the prefix.
func (s Settings) check() error {
	if s.Brokers == "" {
		return errors.New("BROKERS is empty; set it to host:port of one or more brokers, such as 127.0.0.1:9092")
	}
	for _, broker := range s.brokers() {
		host, port, err := net.SplitHostPort(broker)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil || host == "" {
			return errors.New("BROKERS has an entry that is not host:port; write for example 127.0.0.1:9092, several separated by commas") // the entry may be a connection string
		}
	}
	_, compressed := codecs[s.Compression]
	switch {
	case s.Key != keyPartition && s.Key != keyDocument:
		return fmt.Errorf("KEY is %q; set %s or %s", s.Key, keyPartition, keyDocument)
	case bool(s.Tombstones) && s.Key != keyDocument:
		return fmt.Errorf("TOMBSTONES needs KEY=%s: a tombstone removes all messages of its key, and documents share a partition key", keyDocument)
	case !compressed:
		return fmt.Errorf("COMPRESSION is %q; set none, gzip, snappy, lz4 or zstd", s.Compression)
	case s.MaxMessageBytes <= 2*batchOverhead || s.MaxMessageBytes > 1<<30:
		return fmt.Errorf("MAX_MESSAGE_BYTES is %d; set a number above %d and up to %d", s.MaxMessageBytes, 2*batchOverhead, 1<<30)
	case s.PublishTimeout < handlers.Interval(time.Second):
		return fmt.Errorf("PUBLISH_TIMEOUT is %v; set 1s or more", s.PublishTimeout)
	}
	return stream.CheckUpsertOp(s.UpsertOp)
}

func (s Settings) brokers() []string {
	brokers := strings.Split(s.Brokers, ",")
	for i := range brokers {
		brokers[i] = strings.TrimSpace(brokers[i])
	}
	return brokers
}

// maxTopic is the number of characters that a topic's name may have.
const maxTopic = 249

// topic returns the name of the topic. Other characters of a container's name than
// letters, digits, hyphens and underscores are replaced.
func (s Settings) topic(database, container string) (string, error) {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	encode := func(value string) string {
		return stream.Escape(value, '_', func(b byte) bool { return strings.IndexByte(plain, b) >= 0 })
	}
	name, err := stream.Name(s.Topic, map[string]string{"database": database, "container": container}, encode)
	switch {
	case err != nil:
		return "", fmt.Errorf("TOPIC %w; write a name such as halley.{database}.{container}", err)
	case name == "" || name == "." || name == ".." || len(name) > maxTopic || strings.Trim(name, plain+".") != "":
		return "", fmt.Errorf("TOPIC is %q; a name has up to %d letters, digits, dots, hyphens and underscores", name, maxTopic)
	}
	return name, nil
}

// tls returns the configuration of TLS, nil for connections without it.
func (s Settings) tls() (*tls.Config, error) {
	if !s.TLS {
		if s.CAFile != "" || s.CertFile != "" || s.KeyFile != "" {
			return nil, errors.New("TLS is not set, but a file for it is; set it to true, or remove CA_FILE, CERT_FILE and KEY_FILE")
		}
		return nil, nil
	}
	return handlers.TLSFiles{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}.Config(true)
}

// login returns the mechanism of SASL, nil if there is none.
func (s Settings) login() (sasl.Mechanism, error) {
	if s.SASL == "" {
		if s.Username != "" || s.Password != "" {
			return nil, errors.New("SASL is empty, but USERNAME or PASSWORD is set; set it to plain, scram-sha-256 or scram-sha-512")
		}
		return nil, nil
	}
	if s.Username == "" || s.Password == "" {
		return nil, errors.New("SASL is set; set USERNAME and PASSWORD as well")
	}
	switch strings.ToLower(s.SASL) {
	case "plain":
		return plain.Auth{User: s.Username, Pass: s.Password.Reveal()}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: s.Username, Pass: s.Password.Reveal()}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: s.Username, Pass: s.Password.Reveal()}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("SASL is %q; set plain, scram-sha-256 or scram-sha-512", s.SASL)
}

// options returns those of the producer.
func (s Settings) options(topic string) ([]kgo.Opt, error) {
	config, err := s.tls()
	if err != nil {
		return nil, err
	}
	mechanism, err := s.login()
	if err != nil {
		return nil, err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(s.brokers()...),
		kgo.ClientID("halley"),
		kgo.DefaultProduceTopic(topic),
		kgo.RequiredAcks(kgo.AllISRAcks()), // with idempotent writes, which are the default
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(codecs[s.Compression]),
		kgo.ProducerBatchMaxBytes(int32(s.MaxMessageBytes)),
		kgo.RecordDeliveryTimeout(time.Duration(s.PublishTimeout)),
		kgo.RecordPartitioner(byPartitionKey()),
		kgo.MetadataMinAge(time.Second), // the wait before a broker that has failed is looked for again
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}
