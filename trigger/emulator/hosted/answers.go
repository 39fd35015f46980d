package hosted

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// answerColumns are the columns that a table of recorded answers needs, by their titles.
var answerColumns = []string{"exchange", "answer (status/substatus)", "charge", "items", "session token", "first line of the message"}

// WithAnswers returns the exchanges with the answers of a Markdown table of another record,
// which has a row for each exchange, by its number. Other columns, and the text around the
// table, are ignored; a message may end in "(cut)". Exchanges without a row are sent,
// and may have any answer.
func WithAnswers(exchanges []Exchange, record io.Reader) ([]Exchange, error) {
	answers, err := readAnswers(record)
	if err != nil {
		return nil, err
	}
	all := make([]Exchange, 0, len(exchanges))
	for _, e := range exchanges {
		want, ok := answers[e.ID]
		if ok {
			want.Master = e.Want.Master
			e.Want = want
			delete(answers, e.ID)
		} else if e.ID != "" {
			e.ID, e.Want = "", Answer{}
		}
		all = append(all, e)
	}
	for id := range answers {
		return nil, fmt.Errorf("no request is known for exchange %q", id)
	}
	return all, nil
}

func readAnswers(record io.Reader) (map[string]Answer, error) {
	var places []int
	answers := map[string]Answer{}
	lines := bufio.NewScanner(record)
	for number := 1; lines.Scan(); number++ {
		cells := tableCells(lines.Text())
		if places == nil {
			places = columnPlaces(cells)
			continue
		}
		if len(cells) == 0 || strings.HasPrefix(cells[0], "---") {
			continue
		}
		id, want, err := parseAnswer(cells, places)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		answers[id] = want
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, fmt.Errorf("no table with the columns %q", answerColumns)
	}
	return answers, nil
}

// tableCells returns the cells of a row of a Markdown table, nil for other lines.
func tableCells(line string) []string {
	row, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return nil
	}
	const escaped = "\x00"
	cells := strings.Split(strings.TrimSuffix(strings.ReplaceAll(row, `\|`, escaped), "|"), "|")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cell, escaped, "|"))
	}
	return cells
}

// columnPlaces returns the place of each of the answerColumns in a row of titles, nil if
// one is not there.
func columnPlaces(titles []string) []int {
	places := make([]int, len(answerColumns))
	for i, column := range answerColumns {
		if places[i] = slices.Index(titles, column); places[i] < 0 {
			return nil
		}
	}
	return places
}

func parseAnswer(cells []string, places []int) (id string, want Answer, err error) {
	row := make([]string, len(places))
	for i, place := range places {
		if place >= len(cells) {
			return "", Answer{}, fmt.Errorf("%d cells, want at least %d", len(cells), place+1)
		}
		row[i] = cells[place]
	}
	status, substatus, _ := strings.Cut(row[1], "/")
	want.Status, err = strconv.Atoi(status)
	if err != nil {
		return "", Answer{}, fmt.Errorf("status %q is not a number", status)
	}
	want.Substatus, want.Charge, want.Items, want.Session = substatus, present(row[2]), present(row[3]), present(row[4])
	want.Message = row[5]
	if text, cut := strings.CutSuffix(want.Message, " (cut)"); cut {
		want.Message = text + "…"
	}
	return row[0], want, nil
}
