// Package broker decides what may be done and sees that it is accounted for: authority,
// budget, durable intent, the handler's one chance, outcome and record. It never plans,
// never shapes results and never repeats an effect. Answers spec/06-effects.md.
package broker
