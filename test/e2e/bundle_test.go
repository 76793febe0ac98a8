package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/provenance"
	"ailang.dev/world/host/world"
)

func verifyBundle(text []byte) (provenance.Report, error) {
	b, err := provenance.ReadBundle(bytes.NewReader(text))
	if err != nil {
		return provenance.Report{}, err
	}
	return b.Verify(context.Background())
}

// resealed puts the sum right again, as who alters a bundle on purpose would.
func resealed(lines []string) []byte {
	text := strings.Join(lines[:len(lines)-1], "\n") + "\n"
	end, _ := json.Marshal(map[string]any{"end": map[string]any{"sum": hashref.SumString(text)}})
	return append([]byte(text), append(end, '\n')...)
}

func TestBundlesProveThemselves(t *testing.T) {
	w := longRun(t)
	var out bytes.Buffer
	if _, err := provenance.Export(context.Background(), w.Core.Store, w.Core.Store.ID(), "ep1", &out, nil); err != nil {
		t.Fatal(err)
	}
	report, err := verifyBundle(out.Bytes())
	if err != nil || report.Broken > 0 || report.Entries != 12 {
		t.Fatalf("%+v, %v", report, err)
	}
	text := out.Bytes()
	for range 500 {
		bad := bytes.Clone(text)
		bad[rand.IntN(len(bad))] ^= 1 << rand.IntN(8)
		if report, err := verifyBundle(bad); err == nil && report.Broken == 0 {
			t.Fatal("a changed byte was not found")
		}
		if _, err := verifyBundle(text[:rand.IntN(len(text)-1)]); err == nil {
			t.Fatal("a bundle that was cut was not found")
		}
	}
	// Whoever alters it on purpose and seals it again is found by the chain.
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if report, err := verifyBundle(resealed(lines)); err != nil || report.Broken > 0 {
		t.Fatalf("sealed again: %+v, %v", report, err)
	}
	// A header that lies does not make the proof endless.
	for _, header := range []string{
		`{"header":{"format":"world/bundle/v1","store":"s","episode":"ep1","first":0,"last":9007199254740991,"calls":12}}`,
		`{"header":{"format":"world/bundle/v1","store":"s","episode":"ep1","first":-1,"last":12,"calls":12}}`,
		`{"header":{"format":"world/bundle/v1","store":"s","episode":"ep1","first":5,"last":4,"calls":0}}`,
		`{"header":{"format":"world/bundle/v1","store":"s","episode":"ep1","first":2,"last":3,"calls":12}}`,
	} {
		if _, err := verifyBundle(resealed(append([]string{header}, lines[1:]...))); err == nil || !strings.Contains(err.Error(), "stretch") {
			t.Errorf("%s: %v", header, err)
		}
	}
	for i, l := range lines[:len(lines)-1] {
		if !strings.Contains(l, `"object"`) && !strings.Contains(l, `"call"`) && !strings.Contains(l, `"entry":{"entry"`) {
			continue
		}
		if strings.Contains(l, `"world/interpreter/v1"`) {
			continue // an archived binary is no object, so an engine may be missing
		}
		if report, err := verifyBundle(resealed(append(append([]string{}, lines[:i]...), lines[i+1:]...))); err == nil && report.Broken == 0 {
			t.Errorf("without %.120s nothing is missed", l)
		}
	} // Nor is anything altered and sealed again taken for what it was: no object, its engine's
	// among them, and neither an entry between the episode's own nor its world.
	alter := func(i int, from, to string) {
		t.Helper()
		bad := append([]string{}, lines...)
		if bad[i] = strings.Replace(bad[i], from, to, 1); bad[i] == lines[i] {
			t.Fatalf("%.200s has no %s", lines[i], from)
		}
		if report, err := verifyBundle(resealed(bad)); err == nil && report.Broken == 0 {
			t.Errorf("%.120s: altered from %s to %s, and nothing is missed", lines[i], from, to)
		}
	}
	engines := 0
	for i, l := range lines[:len(lines)-1] {
		var line struct {
			Object *struct {
				SemanticID string `json:"semanticId"`
				Payload    []byte `json:"payload"`
			}
			Entry *struct {
				Entry world.Entry
				World world.World
			}
		}
		if err := json.Unmarshal([]byte(l), &line); err != nil {
			t.Fatal(err)
		}
		if o := line.Object; o != nil {
			was := base64.StdEncoding.EncodeToString(o.Payload)
			alter(i, was, base64.StdEncoding.EncodeToString(append([]byte(" "), o.Payload...)))
			if o.SemanticID == "world/interpreter/v1" {
				engines++
			}
		}
		if e := line.Entry; e != nil {
			alter(i, e.World.StateRoot.String(), hashref.SumString("another").String())
			alter(i, fmt.Sprintf(`"semanticsEpoch":%d`, e.Entry.Header.SemanticsEpoch), `"semanticsEpoch":9007199254740993`)
		}
	}
	if engines == 0 {
		t.Error("no engine is in the bundle")
	}
}
