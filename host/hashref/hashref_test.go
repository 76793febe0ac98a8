package hashref

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseTakesOnlyCanonicalText(t *testing.T) {
	good := "sha256:" + strings.Repeat("0a", 32)
	r, err := Parse(good)
	if err != nil || r.String() != good || r.IsNone() {
		t.Fatalf("Parse(%q) = %v, %v", good, r, err)
	}
	for name, text := range map[string]string{
		"empty":         "",
		"no algorithm":  strings.Repeat("0a", 32),
		"other":         "sha512:" + strings.Repeat("0a", 32),
		"upper case":    "sha256:" + strings.Repeat("0A", 32),
		"upper label":   "SHA256:" + strings.Repeat("0a", 32),
		"short":         good[:len(good)-1],
		"long":          good + "0",
		"not hex":       "sha256:" + strings.Repeat("0g", 32),
		"space":         " " + good[1:],
		"NUL":           good[:len(good)-1] + "\x00",
		"trailing line": good[:len(good)-1] + "\n",
	} {
		if r, err := Parse(text); !errors.Is(err, ErrRef) || !r.IsNone() {
			t.Errorf("%s: Parse(%q) = %v, %v; want ErrRef", name, text, r, err)
		}
	}
}

func TestZeroIsNotNone(t *testing.T) {
	if Zero == None || Zero.IsNone() || Zero.String() != "sha256:"+strings.Repeat("00", 32) {
		t.Fatalf("Zero = %v", Zero)
	}
	if None.String() != "" || None.Digest() != nil || None.Compare(Zero) >= 0 {
		t.Fatalf("None = %q", None)
	}
}

func TestRefTextRoundTrip(t *testing.T) {
	in := struct{ A, B Ref }{Sum([]byte("x")), None}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := in
	out.A, out.B = None, Zero
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Fatalf("%s -> %v, %v", b, out, err)
	}
	if d, err := FromDigest(in.A.Digest()); err != nil || d != in.A {
		t.Fatalf("FromDigest: %v, %v", d, err)
	}
	if _, err := FromDigest([]byte("short")); err == nil {
		t.Fatal("FromDigest took 5 bytes")
	}
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		err            error
	}{
		{name: "order and space", in: ` { "b" : 1.0 , "a" : [ true , null ] } `, want: `{"a":[true,null],"b":1}`},
		{name: "order is by UTF-16 units", in: `{"\ufb33":1,"\ud83d\ude00":2}`, want: "{\"\U0001F600\":2,\"\ufb33\":1}"},
		{name: "escapes", in: `"\u0041\/\u000a\u001f"`, want: `"A/\n\u001f"`},
		{name: "numbers", in: `[-0,1e2,0.1e-7,123456789012]`, want: `[0,100,1e-8,123456789012]`},
		{name: "largest integer", in: `9007199254740991`, want: `9007199254740991`},
		{name: "beyond it", in: `9007199254740992`, err: ErrNumber},
		{name: "beyond it, negative", in: `-9007199254740992`, err: ErrNumber},
		{name: "beyond it, as exponent", in: `[1e16]`, err: ErrNumber},
		{name: "infinite", in: `1e999`, err: ErrNumber},
		{name: "deepest", in: nested(MaxDepth), want: nested(MaxDepth)},
		{name: "too deep", in: nested(MaxDepth + 1), err: ErrDepth},
		{name: "bomb", in: strings.Repeat("[", 1<<20), err: ErrDepth},
		{name: "duplicate", in: `{"a":1,"\u0061":2}`, err: ErrSyntax},
		{name: "duplicate below", in: `[{"a":1,"a":1}]`, err: ErrSyntax},
		{name: "lone surrogate", in: `"\ud800"`, err: ErrSyntax},
		{name: "invalid UTF-8", in: "\"\xff\"", err: ErrSyntax},
		{name: "trailing", in: `{} {}`, err: ErrSyntax},
		{name: "truncated", in: `{"a":`, err: ErrSyntax},
		{name: "empty", in: ``, err: ErrSyntax},
		{name: "NaN", in: `NaN`, err: ErrSyntax},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := []byte(c.in)
			got, err := Canonical(in)
			if !errors.Is(err, c.err) || string(got) != c.want {
				t.Fatalf("Canonical = %s, %v; want %s, %v", got, err, c.want, c.err)
			}
			if string(in) != c.in {
				t.Fatal("input was changed")
			}
		})
	}
}

func TestCanonicalObject(t *testing.T) {
	for _, in := range []string{`[]`, `"x"`, `1`, `null`, `true`} {
		if _, err := CanonicalObject([]byte(in)); !errors.Is(err, ErrObject) {
			t.Errorf("%s: %v, want ErrObject", in, err)
		}
	}
}

func TestMembers(t *testing.T) {
	m, err := Members([]byte(`{"a":{"x":1,"x":2},"b":"\ud800"}`))
	if err != nil || len(m) != 2 || string(m["a"]) != `{"x":1,"x":2}` {
		t.Fatalf("Members judged what is inside a member: %v, %v", m, err)
	}
	for in, want := range map[string]error{
		`{"a":1,"a":2}`: ErrRepeat, `[]`: ErrObject, `{"a":1`: ErrSyntax, `{} 1`: ErrSyntax, "": ErrSyntax,
		"{\"a\":\"\xff\"}": ErrUTF8, `{"a" 1}`: ErrSyntax, `null`: ErrObject,
	} {
		if _, err := Members([]byte(in)); !errors.Is(err, want) {
			t.Errorf("Members(%q): %v, want %v", in, err, want)
		}
	}
}

func TestItems(t *testing.T) {
	items, err := Items([]byte(`[1,{"a":2},[]]`), 3)
	if err != nil || len(items) != 3 || string(items[1]) != `{"a":2}` {
		t.Fatalf("Items = %s, %v", items, err)
	}
	if _, err := Items([]byte(`[1,2,3,4]`), 3); err == nil {
		t.Fatal("Items took more than the bound")
	}
	if _, err := Items([]byte(`{}`), 3); !errors.Is(err, ErrArray) {
		t.Fatalf("Items of an object: %v", err)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	type v struct {
		Name string `json:"name"`
	}
	var got v
	if err := Decode([]byte(`{"name":"x"}`), &got); err != nil || got.Name != "x" {
		t.Fatalf("%v, %v", got, err)
	}
	for _, in := range []string{`{"Name":"x"}`, `{"name":"x","other":1}`, `{"name":"x","name":"y"}`, `{"name":"x"} {}`, `{"name":1}`, "{\"name\":\"\xff\"}"} {
		if err := Decode([]byte(in), &v{}); err == nil {
			t.Errorf("Decode took %s", in)
		}
	}
}

// FuzzCanonical: whatever is taken is stable under a second pass, and reads as the same
// value.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"\u00e9"],"b":null}`, `[]`, `"\ud83d\ude00"`, `-0.0`, nested(70), `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := Canonical(in)
		if err != nil {
			return
		}
		twice, err := Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q -> %q -> %q, %v", in, once, twice, err)
		}
		var a, b any
		if json.Unmarshal(in, &a) != nil || json.Unmarshal(once, &b) != nil {
			t.Fatalf("%q -> %q: one of them does not decode", in, once)
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%q -> %q: the value changed", in, once)
		}
	})
}

func TestStreamIsSumInParts(t *testing.T) {
	s := NewStream()
	if s.Ref() != SumString("") {
		t.Errorf("of nothing: %s", s.Ref())
	}
	for _, part := range []string{"a", "", "bc"} {
		if n, err := s.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	for range 2 {
		if s.Ref() != SumString("abc") {
			t.Errorf("of abc: %s", s.Ref())
		}
	}
}

// FuzzRef: a text is no reference, or one that is written as it was read, in each of its forms.
func FuzzRef(f *testing.F) {
	for _, s := range []string{"", "sha256:", SumString("x").String(), strings.ToUpper(SumString("x").String()), SumString("x").Hex(), "sha256:" + strings.Repeat("g", 64), SumString("x").String() + "\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			if !errors.Is(err, ErrRef) || !r.IsNone() {
				t.Fatalf("%v, %v", r, err)
			}
			return
		}
		again, err := FromDigest(r.Digest())
		if err != nil || r.IsNone() || r.String() != s || again.Compare(r) != 0 || "sha256:"+r.Hex() != s {
			t.Fatalf("%q became %s, %s, %v", s, r, again, err)
		}
	})
}
