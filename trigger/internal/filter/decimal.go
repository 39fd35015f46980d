package filter

import "cmp"

// decimalNumber is a number as JSON spells it, so that it is compared without rounding: its
// value is 0.d1d2d3… × 10^exponent. The zero value is 0.
type decimalNumber struct {
	negative bool
	exponent int64
	digits   []byte // from the first digit that is not 0 to the last; there may be a point between them
}

// maxExponent bounds exponents, so that they can be added. Larger ones count as this.
const maxExponent = 1 << 40

// parseDecimal parses a JSON number. The decimalNumber refers to the bytes.
func parseDecimal(raw []byte) (d decimalNumber, ok bool) {
	remainder := raw
	if len(remainder) > 0 && remainder[0] == '-' {
		d.negative, remainder = true, remainder[1:]
	}
	integerDigits := countDigits(remainder)
	if integerDigits == 0 || integerDigits > 1 && remainder[0] == '0' {
		return d, false
	}
	mantissa := remainder[:integerDigits]
	if remainder = remainder[integerDigits:]; len(remainder) > 0 && remainder[0] == '.' {
		n := countDigits(remainder[1:])
		if n == 0 {
			return d, false
		}
		mantissa, remainder = mantissa[:integerDigits+1+n], remainder[1+n:]
	}
	exponent, ok := parseExponent(remainder)
	if !ok {
		return d, false
	}
	d.setDigits(mantissa, integerDigits, exponent)
	return d, true
}

// setDigits takes the significant digits of a mantissa with that many digits before its
// point.
func (d *decimalNumber) setDigits(mantissa []byte, integerDigits int, exponent int64) {
	first := 0
	for first < len(mantissa) && (mantissa[first] == '0' || mantissa[first] == '.') {
		first++
	}
	end := len(mantissa)
	for end > first && (mantissa[end-1] == '0' || mantissa[end-1] == '.') {
		end--
	}
	if first == end {
		*d = decimalNumber{}
		return
	}
	d.digits, d.exponent = mantissa[first:end], exponent+int64(integerDigits-first)
	if first > integerDigits { // the point is not a digit
		d.exponent++
	}
}

func countDigits(b []byte) int {
	for i, c := range b {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(b)
}

// parseExponent parses what follows a mantissa, which may be nothing.
func parseExponent(b []byte) (exponent int64, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0]|0x20 != 'e' {
		return 0, false
	}
	b = b[1:]
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	if len(b) == 0 || countDigits(b) < len(b) {
		return 0, false
	}
	for _, c := range b {
		exponent = min(10*exponent+int64(c-'0'), maxExponent)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, true
}

// compare returns a negative number if d is less than other, 0 if they are equal, and a
// positive number if d is more.
func (d *decimalNumber) compare(other *decimalNumber) int {
	if d.sign() != other.sign() || d.sign() == 0 {
		return d.sign() - other.sign()
	}
	c := cmp.Or(cmp.Compare(d.exponent, other.exponent), compareDigits(d.digits, other.digits))
	return d.sign() * c
}

func (d *decimalNumber) sign() int {
	switch {
	case len(d.digits) == 0:
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// compareDigits compares two fractions 0.d1d2d3…
func compareDigits(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == '.':
			a = a[1:]
		case b[0] == '.':
			b = b[1:]
		case a[0] != b[0]:
			return cmp.Compare(a[0], b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	return cmp.Compare(len(a), len(b)) // the last digit is not 0
}
