package corpus_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"ailang.dev/world/host/handlers/corpus"
	"ailang.dev/world/host/handlers/corpus/ingest"
	"ailang.dev/world/packs"
)

// questionsFloor is the part of the questions whose section must be among the first five.
const questionsFloor = 0.90

// TestQuestionsAreAnswered asks each question that has an answer in the documents that ship,
// and looks for the section that gives it, or one that gives it too, among the first five.
func TestQuestionsAreAnswered(t *testing.T) {
	d := newDesk(t, nil)
	_, err := ingest.Add(t.Context(), ingest.Request{Dir: d.dir, Corpus: "library", Starter: packs.Starter(), Store: d.shelf})
	must(t, err)
	text, err := os.ReadFile("../../../packs/magisterium/testdata/questions.jsonl")
	must(t, err)
	asked, first, five, document := 0, 0, 0, 0
	for line := range strings.Lines(string(text)) {
		var q struct {
			Question, Document, Section, Answer string
			Also                                []string
		}
		must(t, json.Unmarshal([]byte(line), &q))
		if q.Document == "" {
			continue // what the documents do not answer is the answerer's to tell
		}
		asked++
		good := map[string]bool{q.Document + "#" + q.Section: true}
		for _, also := range q.Also {
			good[also] = true
		}
		at, inDocument := -1, false
		places := d.places(corpus.Query{Query: q.Question, Limit: 5})
		for i, place := range places {
			if good[place] && at < 0 {
				at = i
			}
			inDocument = inDocument || strings.HasPrefix(place, q.Document+"#")
		}
		if at == 0 {
			first++
		}
		if inDocument {
			document++
		}
		if at >= 0 {
			five++
		} else {
			t.Logf("not found: %q, which is answered in %s#%s; found %v", q.Question, q.Document, q.Section, places)
		}
	}
	share := func(n int) float64 { return float64(n) / float64(asked) }
	t.Logf("%d questions: section first %.1f %%, among five %.1f %%; document among five %.1f %%", asked, 100*share(first), 100*share(five), 100*share(document))
	if asked < 60 || share(five) < questionsFloor {
		t.Errorf("of %d questions %.1f %% are answered among the first five", asked, 100*share(five))
	}
}

// TestPrefixesOfWholeWords looks for what is longer than the stem under which its words are
// found.
func TestPrefixesOfWholeWords(t *testing.T) {
	d := newDesk(t, nil)
	_, err := ingest.Add(t.Context(), ingest.Request{Dir: d.dir, Corpus: "library", Starter: packs.Starter(), Store: d.shelf})
	must(t, err)
	for query, document := range map[string]string{
		"indulgenc*": "indulgences", "purgator*": "purgatory", "infallibil*": "infallibility", "conscienc*": "conscience",
		"ANGELS*": "angels", "canonis*": "canonisation", "euchar*": "eucharist", "subsidiarity*": "social-teaching",
	} {
		found := false
		for _, place := range d.places(corpus.Query{Query: query, Limit: 5}) {
			found = found || strings.HasPrefix(place, document+"#")
		}
		if !found {
			t.Errorf("%s does not find %s", query, document)
		}
	}
	if got := d.places(corpus.Query{Query: "indulgencz*", Limit: 5}); len(got) > 0 {
		t.Errorf("indulgencz* finds %v", got)
	}
}
