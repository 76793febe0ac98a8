package model

import (
	"cmp"
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The rule by which the extractor picks sentences. Every figure is one of weighing, chosen on
// the questions of the starter corpus.
const (
	maxSentences  = 5
	maxSentence   = 700 // bytes; a longer one is none
	minWords      = 4   // of a sentence
	maxConsidered = 4000

	k1, b = 1.2, 0.6 // of BM25, over sentences

	commonWeight = 0.25 // of a word that half the questions here have
	nameWeight   = 2.0  // of a name that is not there: what has it not is about something else
	headingShare = 0.9  // of a word of the question that stands in heading or title alone
	nearShare    = 0.6  // of one that stands in the passage, but not in the sentence
	leadBonus    = 0.15 // of the first sentence of a passage
	placeLoss    = 0.3  // a sentence further down in the passage, of what the heading alone gives
	rankLoss     = 0.07 // a place further down in the search

	// minCover is what share of the question's words, by weight, must be covered for there to
	// be an answer at all; goodEnough what share of the best score each sentence must have.
	minCover   = 0.52
	goodEnough = 0.45
	tooAlike   = 0.6 // share of words in common with one that was picked
)

// extractor answers with sentences of the passages. It is a pure function of the request.
type extractor struct{}

// sentence is one that may be picked.
type sentence struct {
	text    string
	passage int // index
	at      int // in the passage
	words   map[string]int
	row     string // its stems, each between spaces
	length  int
	score   float64
}

// infer implements backend.
func (extractor) infer(ctx context.Context, r *request) (reply, error) {
	q := topicOf(r.Question)
	if len(q.words) == 0 {
		return reply{}, nil
	}
	all := sentencesOf(r.Passages)
	if err := ctx.Err(); err != nil {
		return reply{}, err
	}
	picked := pick(q, r.Passages, all)
	slices.SortFunc(picked, func(a, b *sentence) int { return cmp.Or(a.passage-b.passage, a.at-b.at) })
	var text strings.Builder
	for i, s := range picked {
		if i > 0 {
			text.WriteString(" ")
		}
		text.WriteString(s.text + " [" + strconv.Itoa(r.Passages[s.passage].N) + "]")
	}
	return reply{text: text.String()}, nil
}

// surrounding is what stands round the sentences of a passage.
type surrounding struct {
	heading, text map[string]int
	row           string // heading's stems, each between spaces
}

func pick(q topic, passages []passage, all []*sentence) []*sentence {
	around := make([]surrounding, len(passages))
	for i, p := range passages {
		heading := stems(p.Title + " " + p.Section)
		around[i] = surrounding{counted(heading), counted(stems(p.Text)), row(heading)}
	}
	df, avg := frequencies(all)
	best := 0.0
	for _, s := range all {
		s.score = 0
		if covered(q, s, around[s.passage]) >= minCover {
			s.score = scoreOf(q, s, around[s.passage], df, avg, len(all))
		}
		best = max(best, s.score)
	}
	ranked := slices.Clone(all)
	slices.SortStableFunc(ranked, func(a, b *sentence) int { return cmp.Compare(b.score, a.score) })
	var picked []*sentence
	for _, s := range ranked {
		if len(picked) == maxSentences || s.score <= 0 || s.score < goodEnough*best {
			break
		}
		if !slices.ContainsFunc(picked, func(p *sentence) bool { return alike(p, s) > tooAlike }) {
			picked = append(picked, s)
		}
	}
	return picked
}

// numeral is one behind the name of a pope, a king or a council.
var numeral = regexp.MustCompile(`^[ivxl]+$`)

// numbered tells whether each numeral of a name stands behind the same word as there.
func (s *sentence) numbered(name []string, a surrounding) bool {
	for i, t := range name {
		if pair := " " + strings.Join(name[max(i-1, 0):i+1], " ") + " "; i > 0 && numeral.MatchString(t) && !strings.Contains(s.row, pair) && !strings.Contains(a.row, pair) {
			return false
		}
	}
	return true
}

// covered is the share of the question's words, by weight, that a sentence and what is round
// it have.
func covered(q topic, s *sentence, a surrounding) float64 {
	other := make(map[string]bool) // of a name that is not here whole: it is another's
	for _, name := range q.names {
		if slices.ContainsFunc(name, func(t string) bool { return s.words[t]+a.heading[t] == 0 }) || !s.numbered(name, a) {
			for _, t := range name {
				other[t] = true
			}
		}
	}
	sum, of := 0.0, 0.0
	for _, t := range slices.Sorted(maps.Keys(q.words)) { // sums of floats depend on the order
		w, there := q.words[t], 0.0
		switch {
		case other[t]:
		case s.words[t] > 0:
			there = 1
		case a.heading[t] > 0:
			there = headingShare
		case a.text[t] > 0:
			there = nearShare
		}
		if there > 0 {
			w = min(w, 1)
		}
		sum, of = sum+there*w, of+w
	}
	return sum / max(of, 1e-9)
}

func scoreOf(q topic, s *sentence, a surrounding, df map[string]int, avg float64, n int) float64 {
	score := 0.0
	for _, t := range slices.Sorted(maps.Keys(q.words)) {
		w := q.words[t]
		idf := math.Log(1 + (float64(n)-float64(df[t])+0.5)/(float64(df[t])+0.5))
		tf := float64(s.words[t])
		if tf > 0 {
			score += min(w, 1) * idf * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(s.length)/avg))
		} else if a.heading[t] > 0 {
			score += min(w, 1) * idf * headingShare / (1 + placeLoss*float64(s.at))
		}
	}
	if s.at == 0 {
		score *= 1 + leadBonus
	}
	return score / (1 + rankLoss*float64(s.passage))
}

func frequencies(all []*sentence) (df map[string]int, avg float64) {
	df = make(map[string]int)
	for _, s := range all {
		for t := range s.words {
			df[t]++
		}
		avg += float64(s.length)
	}
	return df, max(avg/float64(max(len(all), 1)), 1)
}

// alike is the share of words that two sentences have in common.
func alike(a, b *sentence) float64 {
	common := 0
	for t := range a.words {
		if b.words[t] > 0 {
			common++
		}
	}
	return float64(common) / float64(max(min(len(a.words), len(b.words)), 1))
}

// ownMarks are numbers in square brackets that stand in a passage: of them no citation may be
// made.
var ownMarks = regexp.MustCompile(`\s*\[[\d\s,;–-]{1,24}\]`)

// withoutMarks takes marks out of a text, also those that come of taking others out.
func withoutMarks(text string) string {
	for {
		less := ownMarks.ReplaceAllString(text, "")
		if less == text {
			return text
		}
		text = less
	}
}

// plain writes all other brackets round: no mark comes of what stands in them.
var plain = strings.NewReplacer("[", "(", "]", ")", "【", "(", "】", ")")

func sentencesOf(passages []passage) []*sentence {
	var all []*sentence
	for i, p := range passages {
		for at, text := range split(plain.Replace(withoutMarks(p.Text))) {
			if len(text) > maxSentence || len(strings.Fields(text)) < minWords || strings.HasSuffix(text, "?") || len(all) == maxConsidered {
				continue
			}
			words := stems(text)
			all = append(all, &sentence{text: text, passage: i, at: at, words: counted(words), row: row(words), length: len(words)})
		}
	}
	return all
}

func row(words []string) string { return " " + strings.Join(words, " ") + " " }

func counted(words []string) map[string]int {
	m := make(map[string]int, len(words))
	for _, w := range words {
		m[w]++
	}
	return m
}
