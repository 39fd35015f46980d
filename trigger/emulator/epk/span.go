package epk

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// The ends of the key space: every range lies in [Min, Max).
const (
	Min = ""
	Max = "FF"
)

// hashBytes is the length of one version 2 hash.
const hashBytes = 16

// Compare orders effective partition keys. If one is shorter, it counts as followed
// by zeros: "20" and "2000" are one bound.
func Compare(a, b string) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return len(strings.TrimRight(a[n:], "0")) - len(strings.TrimRight(b[n:], "0"))
}

// Contains reports whether epk lies in [min, max).
func Contains(min, max, epk string) bool {
	return Compare(min, epk) <= 0 && Compare(epk, max) < 0
}

// Overlaps reports whether [min, max) and [min2, max2) share a key.
func Overlaps(min, max, min2, max2 string) bool {
	return Compare(min, max2) < 0 && Compare(min2, max) < 0
}

// Span returns the range of the keys that k selects. If k is a prefix of a
// hierarchical key, which it is if it is empty, the range holds every key below k.
// If k is whole, the range is [epk, epk+"FF"), which holds only items of that hash.
func (d Definition) Span(k Key) (min, max string) {
	if len(k) == 0 {
		return Min, Max
	}
	epk := d.Hash(k)
	return epk, epk + Max
}

// Boundaries cuts the key space into n ranges of equal width and returns their
// n+1 bounds, from [Min] to [Max]. The arithmetic is that of
// GetMinInclusiveEffectivePartitionKey in azure-cosmos-dotnet-v3. n is at least 1.
func (d Definition) Boundaries(n int) []string {
	bounds := []string{Min}
	for i := 1; i < n; i++ {
		bounds = append(bounds, d.boundary(i, n))
	}
	return append(bounds, Max)
}

func (d Definition) boundary(i, n int) string {
	if d.Version == 1 {
		return encodeHex(appendNumber(nil, float64(uint64(math.MaxUint32)/uint64(n)*uint64(i))))
	}
	step := new(big.Int).Div(highestHash(hashBytes), big.NewInt(int64(n)))
	return formatHash(step.Mul(step, big.NewInt(int64(i))), hashBytes)
}

// Midpoint returns the key at which a split divides [min, max) in halves. It fails
// if the range is too narrow or its bounds are not keys of this definition.
func (d Definition) Midpoint(min, max string) (string, error) {
	middle := d.middleV2
	if d.Version == 1 {
		middle = d.middleV1
	}
	mid, err := middle(min, max)
	if err != nil {
		return "", fmt.Errorf("split range [%s, %s): %w", min, max, err)
	}
	if Compare(min, mid) >= 0 || Compare(mid, max) >= 0 {
		return "", fmt.Errorf("split range [%s, %s): it is too narrow", min, max)
	}
	return mid, nil
}

func (d Definition) middleV2(min, max string) (string, error) {
	width := hashBytes
	if longest := (len(min) + 1) / 2; longest > width {
		width = longest
	}
	if longest := (len(max) + 1) / 2; longest > width {
		width = longest
	}
	low, err := parseHash(min, width)
	if err != nil {
		return "", err
	}
	high := highestHash(width)
	if max != Max {
		if high, err = parseHash(max, width); err != nil {
			return "", err
		}
	}
	sum := low.Add(low, high)
	return formatHash(sum.Rsh(sum, 1), width), nil
}

func (d Definition) middleV1(min, max string) (string, error) {
	low, high := 0.0, float64(math.MaxUint32)
	var err error
	if min != Min {
		if low, err = parseNumber(min); err != nil {
			return "", err
		}
	}
	if max != Max {
		if high, err = parseNumber(max); err != nil {
			return "", err
		}
	}
	return encodeHex(appendNumber(nil, math.Floor((low+high)/2))), nil
}

// highestHash is 3FFF…FF: version 2 hashes have their top two bits clear.
func highestHash(width int) *big.Int {
	one := big.NewInt(1)
	limit := new(big.Int).Lsh(one, uint(8*width-2))
	return limit.Sub(limit, one)
}

func formatHash(n *big.Int, width int) string {
	return encodeHex(n.FillBytes(make([]byte, width)))
}

// parseHash reads a bound, padded with zeros to width bytes.
func parseHash(bound string, width int) (*big.Int, error) {
	padded := bound + strings.Repeat("0", 2*width-len(bound))
	b, err := hex.DecodeString(padded)
	if err != nil {
		return nil, fmt.Errorf("bound %q is not hex", bound)
	}
	return new(big.Int).SetBytes(b), nil
}

// parseNumber reads the number that a version 1 key begins with; see appendNumber.
func parseNumber(bound string) (float64, error) {
	b, err := hex.DecodeString(bound)
	if err != nil || len(b) < 3 || b[0] != markNumber {
		return 0, fmt.Errorf("bound %q is not a version 1 hash", bound)
	}
	bits, shift := uint64(b[1])<<56, 49
	for _, group := range b[2:] {
		if shift >= 0 {
			bits |= uint64(group>>1) << shift
		} else {
			bits |= uint64(group>>1) >> -shift
		}
		shift -= 7
		if group&1 == 0 {
			break
		}
	}
	if bits>>63 == 0 {
		bits = -bits
	} else {
		bits &^= 1 << 63
	}
	return math.Float64frombits(bits), nil
}
