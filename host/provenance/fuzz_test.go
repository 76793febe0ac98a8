package provenance

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"context"

	"github.com/go-json-experiment/json"

	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

// FuzzBundle: any lines, sealed as a bundle, are refused or proved in bounded time; nothing
// is found whole that has no entry.
func FuzzBundle(f *testing.F) {
	header := `{"header":{"format":"world/bundle/v1","store":"s","episode":"e","first":1,"last":1,"calls":1}}`
	for _, seed := range []string{
		header, header + "\n" + `{"entry":{"entry":{"header":{"semanticsEpoch":1,"transitionFn":"","interpreter":"","prevEntryHash":"","entryIndex":1,"writtenBy":"coordinator:mcp"},"entryHash":"","transitionRef":""},"world":{"ref":"","stateRoot":"","logHead":"","revision":1},"own":true}}`,
		header + "\n" + `{"object":{"hash":"sha256:` + strings.Repeat("0", 64) + `","payload":"e30="}}`, header + "\n" + `{"call":{"id":"a2a:e:t","entryIndex":1}}`, "{}", "\x00", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, lines []byte) {
		text := bytes.Clone(lines)
		if len(text) > 0 && text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		end, err := json.Marshal(map[string]any{"end": map[string]any{"sum": hashref.Sum(text)}})
		if err != nil {
			t.Fatal(err)
		}
		b, err := ReadBundle(bytes.NewReader(append(append(text, end...), '\n')))
		if err != nil {
			if k := world.KindOf(err); k != world.KindIntegrity && k != world.KindBadRequest {
				t.Fatalf("%v", err)
			}
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := b.Verify(ctx)
		if world.KindOf(err) == world.KindTimeout && err != nil {
			t.Fatal("the proof takes for ever")
		}
		if err == nil && r.Broken == 0 && len(b.entries) == 0 {
			t.Errorf("a bundle without entries is whole: %s", lines)
		}
	})
}
