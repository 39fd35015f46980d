package emulator

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// Resource ids are those of ResourceId in azure-cosmos-dotnet-v3: a database has
// 4 bytes, a container those and 4 more with the highest bit set, an item or range
// the 8 of its container and a sequence number of 8, whose topmost
// four bits are its type.
const (
	typeItem  = 0x0
	typeRange = 0x5
)

func databaseRID(n uint32) string {
	return encodeRID(binary.BigEndian.AppendUint32(nil, n))
}

func containerRID(database, n uint32) string {
	b := binary.BigEndian.AppendUint32(nil, database)
	return encodeRID(binary.BigEndian.AppendUint32(b, n|1<<31))
}

// memberRID is the id of the n-th item or range of the container with the
// 8-byte id container.
func memberRID(container []byte, kind byte, seq uint64) string {
	b := append(make([]byte, 0, 16), container...)
	b = binary.LittleEndian.AppendUint64(b, seq)
	b[15] |= kind << 4
	return encodeRID(b)
}

func encodeRID(b []byte) string {
	return strings.ReplaceAll(base64.StdEncoding.EncodeToString(b), "/", "-")
}

func decodeRID(s string) []byte {
	b, _ := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "-", "/"))
	return b
}

// formatETag makes the quoted GUID of the n-th write to a resource that was
// created as the owner-th of the account with the given seed.
func formatETag(seed, owner uint32, n uint64) string {
	return fmt.Sprintf(`"%08x-%04x-%04x-0000-%012x"`, seed, owner>>16, owner&0xffff, n&0xffffffffffff)
}
