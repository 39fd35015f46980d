package pushservice

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	saltSize  = 16
	pointSize = 65 // an uncompressed P-256 point
	tagSize   = 16
)

// decrypt reads a message in the aes128gcm coding (RFC 8188 section 2), with the
// key agreement of RFC 8291 section 3.
func decrypt(private *ecdh.PrivateKey, auth, body []byte) ([]byte, error) {
	const header = saltSize + 4 + 1 + pointSize
	if len(body) < header+tagSize+1 {
		return nil, fmt.Errorf("message of %d bytes is too short", len(body))
	}
	salt, content := body[:saltSize], body[saltSize:]
	recordSize, keySize := binary.BigEndian.Uint32(content), content[4]
	if keySize != pointSize {
		return nil, fmt.Errorf("key of the message has %d bytes, not %d", keySize, pointSize)
	}
	sender, record := content[5:5+pointSize], content[5+pointSize:]
	if uint64(len(record)) > uint64(recordSize) {
		return nil, errors.New("message has more than one record (RFC 8291 section 4)")
	}
	input, err := agree(private, auth, sender)
	if err != nil {
		return nil, err
	}
	return open(input, salt, record)
}

// agree derives the input keying material from both keys.
func agree(private *ecdh.PrivateKey, auth, sender []byte) ([]byte, error) {
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, fmt.Errorf("key of the message: %w", err)
	}
	shared, err := private.ECDH(public)
	if err != nil {
		return nil, fmt.Errorf("agree on a key: %w", err)
	}
	info := "WebPush: info\x00" + string(private.PublicKey().Bytes()) + string(sender)
	return hkdf.Key(sha256.New, shared, auth, info, 32)
}

// open decrypts the only record and removes its padding.
func open(input, salt, record []byte) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, input, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Key(sha256.New, input, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	padded, err := gcm.Open(nil, nonce, record, nil)
	if err != nil {
		return nil, fmt.Errorf("decrypt message: %w", err)
	}
	const last = 0x02 // delimiter of the last record
	content := bytes.TrimRight(padded, "\x00")
	if len(content) == 0 || content[len(content)-1] != last {
		return nil, errors.New("record is not delimited as the last one")
	}
	return content[:len(content)-1], nil
}
