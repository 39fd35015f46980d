package sql

import "fmt"

// Error is returned if the service would refuse the query as a bad request. Start
// and End are byte offsets of the offending text in the query; both are 0 if the
// error concerns the whole query or its parameters.
type Error struct {
	Code       string // such as SC1001
	Message    string
	Start, End int
}

// Codes of query errors. The first five are the service's own; it documents no
// list of the others.
const (
	codeSyntax     = "SC1001"
	codeToken      = "SC1010"
	codeIdentifier = "SC2001"
	codeFunction   = "SC2005"
	codeDuplicate  = "SC2022" // a property of a result
	codeArguments  = "SC2010"
	codeSelect     = "SC2102"
	codeLimit      = "SC2201"
	codeValue      = "SC3001"
	codeResource   = "SC3002" // a limit on values, memory or work
)

func (e *Error) Error() string {
	if e.End == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s (at position %d)", e.Message, e.Start)
}

// span is a stretch of the query text.
type span struct{ start, end int }

func (s span) errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Start: s.start, End: s.end}
}
