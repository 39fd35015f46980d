package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"testing"
)

func TestPictureIsUpToDate(t *testing.T) {
	var want bytes.Buffer
	if err := draw(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../images/how-it-works.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("the picture differs from its source: go run ./docs/picture > docs/images/how-it-works.svg")
	}
	for d := xml.NewDecoder(&want); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestEachBoxHasACellOfItsOwn(t *testing.T) {
	cells := map[[2]int]string{}
	for _, x := range boxes {
		cell := [2]int{x.column, x.row}
		if other, taken := cells[cell]; taken {
			t.Errorf("%s and %s have the same cell", x.name, other)
		}
		cells[cell] = x.name
	}
}
