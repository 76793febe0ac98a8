package sqlstore

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/store"
	"ailang.dev/world/host/world"
)

func TestReferences(t *testing.T) {
	a, b := hashref.SumString("a"), hashref.SumString("b")
	var many []world.Ref
	var text strings.Builder
	for i := range store.MaxRefs + 5 {
		r := hashref.SumString(fmt.Sprint(i))
		many = append(many, r)
		fmt.Fprintf(&text, "%s%s%s", r, many[0], r)
	}
	cases := []struct {
		name, payload string
		want          []world.Ref
	}{
		{"none", "", nil},
		{"the mark alone", "sha256:", nil},
		{"alone", a.String(), []world.Ref{a}},
		{"in order, each once", b.String() + a.String() + b.String(), []world.Ref{b, a}},
		{"among other bytes", "\x00\xff" + a.String() + "\xff", []world.Ref{a}},
		{"one digit short", a.String()[:hashref.TextLen-1], nil},
		{"one digit short, then another", a.String()[:hashref.TextLen-1] + " " + b.String(), []world.Ref{b}},
		{"upper case", "sha256:" + strings.ToUpper(a.Hex()), nil},
		{"another algorithm", "sha512:" + a.Hex(), nil},
		{"a mark inside", "sha256:abcsha256:" + a.Hex(), []world.Ref{a}},
		{"so many and no more", text.String(), many[:store.MaxRefs]},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := References([]byte(c.payload))
			if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b world.Ref) bool { return a == b })); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// TestSumsCoverEveryField changes each field of each row, and expects another checksum.
func TestSumsCoverEveryField(t *testing.T) {
	rows := []interface{ Sum() int64 }{
		&HeadRow{}, &ObjectRow{}, &EntryRow{}, &JournalRow{}, &RegistryRow{}, &SessionRow{}, &SpendRow{}, &RefRow{}, &KeptRow{},
	}
	for _, row := range rows {
		v := reflect.ValueOf(row).Elem()
		t.Run(v.Type().Name(), func(t *testing.T) {
			seen := map[int64]string{row.Sum(): "nothing"}
			if again := row.Sum(); seen[again] == "" {
				t.Fatal("the sum is not the same twice")
			}
			eachField(v, v.Type().Name(), func(path string) {
				switch path {
				case "ObjectRow.Payload": // proven by its hash
					return
				case "JournalRow.Need.Approval": // a word of the declaration, and no column
					return
				}
				sum := row.Sum()
				if other, same := seen[sum]; same {
					t.Errorf("changing %s gives the sum of changing %s", path, other)
				}
				seen[sum] = path
			})
		})
	}
}

// eachField sets each leaf of a value to something else, calls f, and sets it back.
func eachField(v reflect.Value, path string, f func(path string)) {
	set := func(to any) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.Set(reflect.ValueOf(to).Convert(v.Type()))
		f(path)
		v.Set(old)
	}
	switch v.Interface().(type) {
	case world.Ref:
		set(hashref.Zero)
		set(hashref.SumString("x"))
		return
	case time.Time:
		set(time.Unix(1, 1))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Int64:
		set(1)
		set(-1)
	case reflect.String:
		set("x")
		set("\x00")
	case reflect.Bool:
		set(true)
	case reflect.Slice:
		set([]byte("x"))
	default:
		panic("unknown kind " + v.Kind().String())
	}
}

func TestSumsKeepTextsApart(t *testing.T) {
	a := SpendRow{Episode: "ab", Effect: "c"}
	b := SpendRow{Episode: "a", Effect: "bc"}
	if a.Sum() == b.Sum() {
		t.Fatal("ab,c and a,bc have one sum")
	}
}

func TestTimesRoundTrip(t *testing.T) {
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(2030, 6, 1, 12, 0, 0, 120, time.FixedZone("x", 5*3600+1800)), time.Now(),
	} {
		got, err := ParseTime(FormatTime(at))
		if err != nil || !got.Equal(at) || got.Location() != time.UTC {
			t.Errorf("%v: %v, %v", at, got, err)
		}
	}
}
