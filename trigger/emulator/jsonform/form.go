// Package jsonform writes the numbers and strings of JSON text as the service does
// (recorded answers of a hosted account, October 2026). The text that it is given is
// valid JSON.
package jsonform

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"
)

// ErrRange is the error of a number that is too large for a double.
var ErrRange = errors.New("a number is outside the range of a double")

// form is one of the service's two ways to write a number.
type form struct {
	exponent int  // digits of an exponent, at least
	unsigned bool // whole numbers of 64 bits keep all digits without a sign, too
}

var (
	stored    = form{exponent: 3, unsigned: true}
	projected = form{exponent: 2}
)

// Stored returns text as reads and the change feed give it: whole numbers of 64 bits,
// signed or not, keep their digits, others are doubles, whose exponents have three digits.
// A lone surrogate of a string becomes U+FFFD. If nothing changes, Stored returns text
// itself. It fails with [ErrRange].
func Stored(text []byte) ([]byte, error) { return stored.rewrite(text) }

// Projected returns text as the projections of a query give it: whole numbers that a
// signed integer of 64 bits holds keep their digits, others are doubles, whose exponents
// have two digits. If nothing changes, Projected returns text itself. It leaves a number
// as it is if a double cannot hold it.
func Projected(text []byte) []byte {
	if changed, err := projected.rewrite(text); err == nil {
		return changed
	}
	return text
}

// AppendNumber appends a finite number as the projections of a query give it.
func AppendNumber(b []byte, n float64) []byte { return projected.append(b, n) }

// rewrite copies nothing until it finds a number or string to change.
func (f form) rewrite(text []byte) (changed []byte, err error) {
	copied := 0
	for i := 0; i < len(text); {
		start := i
		switch c := text[i]; {
		case c == '"':
			var lone bool
			if i, lone = skipString(text, i); lone {
				changed = appendString(append(changed, text[copied:start]...), text[start:i])
				copied = i
			}
		case c == '-' || isDigit(c):
			if i = skipNumber(text, i); plain(text[start:i]) {
				continue
			}
			if changed, err = f.number(append(changed, text[copied:start]...), text[start:i]); err != nil {
				return nil, err
			}
			copied = i
		default:
			i++
		}
	}
	if copied == 0 {
		return text, nil
	}
	return append(changed, text[copied:]...), nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func skipNumber(text []byte, i int) int {
	for i++; i < len(text) && (isDigit(text[i]) || text[i]|0x20 == 'e' || text[i] == '.' || text[i] == '+' || text[i] == '-'); i++ {
	}
	return i
}

// Digits that a number may have if every form leaves it as it is: a whole number, and one
// with a fraction.
const (
	maxPlain    = 18
	maxFraction = 15
)

// plain reports whether a number needs no change, which is so for nearly all numbers.
func plain(number []byte) bool {
	digits := bytes.TrimPrefix(number, []byte{'-'})
	dot := bytes.IndexByte(digits, '.')
	if dot < 0 {
		return len(digits) <= maxPlain && allDigits(digits) && (len(digits) == len(number) || digits[0] != '0')
	}
	fraction := digits[dot+1:]
	return len(digits) <= maxFraction+1 && allDigits(digits[:dot]) && allDigits(fraction) &&
		fraction[len(fraction)-1] != '0' && (digits[0] != '0' || fraction[0] != '0')
}

func allDigits(text []byte) bool {
	for _, c := range text {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

func (f form) number(b, text []byte) ([]byte, error) {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return strconv.AppendInt(b, n, 10), nil
	}
	if n, err := strconv.ParseUint(string(text), 10, 64); err == nil && f.unsigned {
		return strconv.AppendUint(b, n, 10), nil
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return nil, ErrRange
	}
	return f.append(b, n), nil
}

// append writes 15 digits if they give the same double, else 17, as printf and .NET's "R"
// format do.
func (f form) append(b []byte, n float64) []byte {
	if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return strconv.AppendInt(b, int64(n), 10)
	}
	text := strconv.FormatFloat(n, 'g', 15, 64)
	if short, err := strconv.ParseFloat(text, 64); err != nil || short != n {
		text = strconv.FormatFloat(n, 'g', 17, 64)
	}
	for i := range len(text) {
		if text[i] != 'e' {
			continue
		}
		b = append(b, text[:i+2]...) // with the sign
		for digits := len(text) - i - 2; digits < f.exponent; digits++ {
			b = append(b, '0')
		}
		return append(b, text[i+2:]...)
	}
	return append(b, text...)
}

// skipString returns the index after the string that begins at i, and whether it has a
// lone surrogate.
func skipString(text []byte, i int) (end int, lone bool) {
	length := bytes.IndexByte(text[i+1:], '"')
	if bytes.IndexByte(text[i+1:i+1+length], '\\') < 0 {
		return i + length + 2, false
	}
	for i++; text[i] != '"'; i++ {
		if text[i] != '\\' {
			continue
		}
		if size, alone := surrogate(text[i:]); size > 0 {
			lone = lone || alone
			i += size - 1
			continue
		}
		i++
	}
	return i + 1, lone
}

// appendString appends a string with U+FFFD instead of each lone surrogate.
func appendString(b, quoted []byte) []byte {
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			b = append(b, quoted[i])
			continue
		}
		size, alone := surrogate(quoted[i:])
		if alone {
			b = utf8.AppendRune(b, utf8.RuneError)
			i += size - 1
			continue
		}
		size = max(size, 2)
		b = append(b, quoted[i:i+size]...)
		i += size - 1
	}
	return b
}

// surrogate returns the length of the escaped surrogate, or pair of surrogates, that
// text begins with, 0 if it begins with another escape. alone is true if there is no pair.
func surrogate(text []byte) (size int, alone bool) {
	switch first := surrogateHalf(text); {
	case first == 0:
		return 0, false
	case first == highHalf && surrogateHalf(text[6:]) == lowHalf:
		return 12, false
	}
	return 6, true
}

// Halves of a surrogate pair.
const (
	highHalf = 1
	lowHalf  = 2
)

// surrogateHalf returns which half of a pair the escape \uXXXX at the start of text is, 0
// if it is another character.
func surrogateHalf(text []byte) int {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' || text[2]|0x20 != 'd' {
		return 0
	}
	switch c := text[3] | 0x20; {
	case '8' <= text[3] && text[3] <= '9' || c == 'a' || c == 'b':
		return highHalf
	case 'c' <= c && c <= 'f':
		return lowHalf
	}
	return 0
}
