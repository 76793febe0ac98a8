package hashref

import (
	"bytes"
	"errors"
	"testing"
)

func TestInsert(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                              `{"world":1}`,
		`{"a":{"world":2}}`:               `{"a":{"world":2},"world":1}`,
		`{"zz":[1,2]}`:                    `{"world":1,"zz":[1,2]}`,
		`{"a":1,"worlds":2}`:              `{"a":1,"world":1,"worlds":2}`,
		`{"a":1,"é":2}`:                   `{"a":1,"world":1,"é":2}`,
		"{\"\U0001F600\":1,\"\ufb33\":2}": "{\"world\":1,\"\U0001F600\":1,\"\ufb33\":2}",
		`{"w":"}","world":3}`:             "",
	} {
		got, ok, err := Insert([]byte(in), "world", []byte("1"))
		if err != nil || ok != (want != "") || string(got) != want {
			t.Errorf("Insert into %s: %s, %v, %v; want %s", in, got, ok, err, want)
		}
		if there, err := Has([]byte(in), "world"); err != nil || there != (want == "") {
			t.Errorf("Has %s: %v, %v", in, there, err)
		}
		if want != "" {
			if again, err := Canonical(got); err != nil || !bytes.Equal(again, got) {
				t.Errorf("%s is not canonical: %s, %v", got, again, err)
			}
		}
	}
	if _, _, err := Insert([]byte(`[]`), "world", nil); !errors.Is(err, ErrObject) {
		t.Errorf("an array: %v", err)
	}
}

// FuzzInsert: a member inserted into a canonical object makes a canonical object.
func FuzzInsert(f *testing.F) {
	f.Add([]byte(`{"a":1,"z":{"world":[]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		obj, err := CanonicalObject(in)
		if err != nil {
			return
		}
		got, ok, err := Insert(obj, "world", []byte(`{}`))
		if err != nil {
			t.Fatalf("%s: %v", obj, err)
		}
		if !ok {
			return
		}
		if again, err := Canonical(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%s -> %s, which is not canonical (%s, %v)", obj, got, again, err)
		}
	})
}
