package emulator

import (
	"net/http"
	"time"

	"halley/trigger/emulator/patch"
)

// patch changes parts of a document.
func (t *transaction) patch(id string, body []byte, ifMatch string) (outcome, error) {
	old, err := t.match(id, ifMatch)
	if err != nil {
		return outcome{}, err
	}
	request, err := patch.Parse(body)
	if err != nil {
		return outcome{}, badRequest("%v", err)
	}
	if err := meets(request.Condition, old, t.now); err != nil {
		return outcome{}, err
	}
	text, err := request.Apply(old.body)
	if err != nil {
		return outcome{}, badRequest("%v", err)
	}
	d, err := parseDraftOf(text, t.container.keyDefinition, true)
	if err != nil {
		return outcome{}, err
	}
	return t.replace(id, d, "")
}

// meets fails if doc does not meet the condition of a patch.
func meets(condition string, doc *document, now time.Time) error {
	if condition == "" {
		return nil
	}
	ok, err := matches(condition, doc.body, now)
	if err != nil {
		return err
	}
	if !ok {
		return fail(http.StatusPreconditionFailed, subConditionFailed, "The document does not meet the condition %q.", condition)
	}
	return nil
}
