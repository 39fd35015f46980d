package functionshost

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Payload is the input of an invocation: the values of the input bindings by name
// and the trigger's metadata. Values are encoded as by ScriptInvocationContext,
// see [encodeValue].
type Payload struct {
	Data     map[string]any
	Metadata map[string]any // "sys" is added
}

// encode returns the request's body. If a metadata value is null or its key ends
// in "trigger", it does not reach the handler.
func (p Payload) encode(function string) ([]byte, error) {
	body := struct{ Data, Metadata map[string]any }{make(map[string]any), make(map[string]any)}
	for name, value := range p.Data {
		encoded, err := encodeValue(value)
		if err != nil {
			return nil, fmt.Errorf("binding %s: %w", name, err)
		}
		body.Data[name] = encoded
	}
	for name, value := range p.Metadata {
		if value == nil || strings.HasSuffix(strings.ToLower(name), "trigger") {
			continue
		}
		encoded, err := encodeValue(value)
		if err != nil {
			return nil, fmt.Errorf("metadata %s: %w", name, err)
		}
		body.Metadata[name] = encoded
	}
	body.Metadata["sys"] = map[string]any{
		"MethodName": function,
		"UtcNow":     time.Now().UTC().Format("2006-01-02T15:04:05.9999999Z"),
		"RandGuid":   uuid.NewString(),
	}
	return json.Marshal(body)
}

// encodeValue applies the host's encodings: objects are nested unchanged; strings,
// numbers, bools, arrays and null are JSON inside a string; bytes are base64;
// times are ISO text in whole seconds.
func encodeValue(value any) (any, error) {
	switch v := value.(type) {
	case verbatim:
		return string(v), nil
	case []byte:
		return base64.StdEncoding.EncodeToString(v), nil
	case time.Time:
		return v.Format("2006-01-02T15:04:05-07:00"), nil
	}
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if len(b) > 0 && b[0] == '{' {
		return json.RawMessage(b), nil
	}
	return string(b), nil
}

// verbatim is text that becomes a JSON string without further encoding.
type verbatim string

// Encoding is the number of JSON strings around a timer's value.
type Encoding int

const (
	Object Encoding = iota // nested object, as current hosts send it
	Text                   // a string that holds the object, as older hosts send it
	Double                 // a string that holds a string that holds the object
)

// Timer is the value of a timer trigger.
type Timer struct {
	IsPastDue bool
	Status    *ScheduleStatus // nil: no monitor, as for every schedule below a minute
	DST       bool            // Schedule.AdjustForDST; false for TimeSpan schedules
	Encoding  Encoding
}

// ScheduleStatus is the state of the timer's monitor. Before the first run, Last
// is the zero time.
type ScheduleStatus struct {
	Last, Next, LastUpdated time.Time
}

// FireTimer invokes a function with a timer trigger. A test fires the same value
// twice to deliver a tick twice, as happens when the host loses its singleton
// lock.
func (h *Host) FireTimer(function string, t Timer) *Invocation {
	b, err := h.triggerOf(function, "timerTrigger")
	if err != nil {
		return failed(function, err)
	}
	value, err := t.value()
	if err != nil {
		return failed(function, err)
	}
	return h.Invoke(function, Payload{Data: map[string]any{b.Name: value}})
}

func (t Timer) value() (any, error) {
	b, err := json.Marshal(map[string]any{
		"Schedule":       map[string]bool{"AdjustForDST": t.DST},
		"ScheduleStatus": t.status(),
		"IsPastDue":      t.IsPastDue,
	})
	switch t.Encoding {
	case Text:
		return verbatim(b), err
	case Double:
		return string(b), err
	}
	return json.RawMessage(b), err
}

func (t Timer) status() any {
	if t.Status == nil {
		return nil
	}
	const layout = "2006-01-02T15:04:05.9999999-07:00"
	return map[string]string{
		"Last":        t.Status.Last.Format(layout),
		"Next":        t.Status.Next.Format(layout),
		"LastUpdated": t.Status.LastUpdated.Format(layout),
	}
}

// Schedule fires a function's timer every interval until stop is closed. The
// interval begins when the previous invocation has ended, so invocations of one
// host never overlap. done is called with every result.
func (h *Host) Schedule(function string, interval time.Duration, stop <-chan struct{}, done func(Result)) {
	for {
		select {
		case <-time.After(interval):
			done(h.FireTimer(function, Timer{DST: true}).Result())
		case <-stop:
			return
		case <-h.done:
			return
		}
	}
}
