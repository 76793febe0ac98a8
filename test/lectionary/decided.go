package main

// decision is a difference that was looked at and is none: both cite the same text.
type decision struct {
	number       int
	theirs, ours string
	why          string
}

const (
	numbering = "the same verses: the Lectionary has the numbers of the New Vulgate, the table those of modern editions"
	vulgate   = "typing error: the number is the Vulgate's, verses are the modern ones"
	typed     = "typing error"
)

var decisions = []decision{
	{17, "Sir 3:3-7, 14-17a", "Sir 3:2-6, 12-14", numbering},
	{19, "Sir 24:1-4, 12-16", "Sir 24:1-2, 8-12", numbering},
	{76, "Sir 15:16-21", "Sir 15:15-20", numbering},
	{84, "Sir 27:5-8", "Sir 27:4-7", numbering},
	{224, "Ps 20:8, 9, 10, 15", "Ps 19:8, 9, 10, 15", typed + ": Psalm 20 has no verse 15"},
	{227, "Est 12:14-16, 23-25", "Est C:12, 14-16, 23-25", typed + ": C became 1 and 12 a chapter; Esther 12 has 6 verses"},
	{230, "Ps 78:8, 9, 11, 13", "Ps 79:8, 9, 11, 13", vulgate},
	{237, "Ps 42:2, 3; 42:3, 4", "Ps 42:2, 3; 43:3, 4", typed + ": 42:3 stands twice"},
	{243, "Ps 26:1, 7-8a, 8b-9abc, 13-14", "Ps 27:1, 7-8, 8-9, 13-14", vulgate + "; Psalm 26 has no verse 13"},
	{245, "Jn 5:1-3a, 5-16", "Jn 5:1-16", "the same text: verse 4 is in no modern edition"},
	{279, "Ps 42:2-3; 42:3, 4", "Ps 42:2-3; 43:3, 4", typed + ": 42:3 stands twice"},
	{358, "Tb 13:2, 6, 7, 10", "Tb 13:2, 6, 7, 8", "the same verses: the list has the Vulgate's numbers, and says so; its 10 is 8"},
}

// decided tells whether a citation of theirs was found to be one of ours.
func decided(number int, theirs, ours string) bool {
	for _, d := range decisions {
		if d.number == number && d.theirs == theirs && d.ours == ours {
			return true
		}
	}
	return false
}
