package hashref

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Explain says what Decode found wrong, for whoever wrote the JSON: the place as a JSON
// pointer, and what must stand there. It names no Go type, and its words do not change
// from build to build, as the decoder's own do. whole says what the text as a whole must
// be.
func Explain(err error, whole string) string {
	var syn *jsontext.SyntacticError
	var sem *json.SemanticError
	switch {
	case errors.As(err, &syn):
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Sprintf("%s stands twice", place(syn.JSONPointer))
		}
		return fmt.Sprintf("is not valid JSON at byte %d", syn.ByteOffset)
	case !errors.As(err, &sem):
		return whole
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Sprintf("%s is not a known field", place(sem.JSONPointer))
	case sem.JSONPointer == "":
		return whole
	}
	return fmt.Sprintf("%s must be %s", place(sem.JSONPointer), kindOf(sem.GoType))
}

func place(p jsontext.Pointer) string { return fmt.Sprintf("%q", string(p)) }

// kindOf is what JSON calls a Go type.
func kindOf(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "something else"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Slice, reflect.Array:
		return "an array"
	}
	return "an object"
}
