package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/words"
)

const (
	maxBody   = 4 << 20  // bytes of a request; a submission may have many start URLs
	maxValue  = 64 << 10 // bytes of one field that is not start URLs
	maxText   = 8 << 10  // bytes of one that is a text
	maxFaults = 100      // of a request that a refusal names
	maxFields = 1000     // of one object
)

// readBody reads the body of a request into dst, a pointer to a struct. It names every field that is unknown or has the
// wrong type. An optional body may be empty.
func readBody(w http.ResponseWriter, r *http.Request, dst any, optional bool) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	allowed := []string{"application/json"}
	if r.Method == http.MethodPatch {
		allowed = append(allowed, "application/merge-patch+json")
	}
	typed := err == nil && slices.Contains(allowed, kind)
	mistyped := refuse(service.ErrMediaType, "send the body as "+strings.Join(allowed, " or "))
	if !typed && !optional {
		return mistyped
	}
	if r.Header.Get("Content-Encoding") != "" {
		return refuse(service.ErrMediaType, "send the body without Content-Encoding")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return refuse(service.ErrTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBody))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(service.ErrTimeout,
			fmt.Sprintf("the body did not arrive within %s, and a second more for each %d bytes", bodyTime, bodyRate))
	}
	if err != nil {
		return refuse(service.ErrBody, "the body did not arrive whole")
	}
	if optional && len(bytes.TrimSpace(text)) == 0 {
		return nil // whatever its type; the length of a body in chunks is not known before
	}
	if !typed {
		return mistyped
	}
	if !json.Valid(text) {
		var any any
		return refuse(service.ErrBody, fmt.Sprintf("the body is not one JSON value: %v", json.Unmarshal(text, &any)))
	}
	if faults := fill("", text, reflect.ValueOf(dst).Elem()); len(faults) > 0 {
		return refuse(service.ErrInvalid, "the body has faults", faults...)
	}
	return nil
}

// fill sets the fields of a struct from a JSON object. Names must match exactly.
func fill(prefix string, text []byte, dst reflect.Value) (faults []service.FieldError) {
	object, ok := fieldsOf(text)
	if !ok {
		return []service.FieldError{{Field: strings.TrimSuffix(prefix, "."), Code: "type", Detail: "must be an object"}}
	}
	if len(object) > maxFields {
		return []service.FieldError{{Field: strings.TrimSuffix(prefix, "."), Code: "too_large",
			Detail: fmt.Sprintf("has more than %d fields", maxFields)}}
	}
	fields := map[string]reflect.Value{}
	for i := range dst.NumField() {
		name, _, _ := strings.Cut(dst.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = dst.Field(i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if len(faults) >= maxFaults {
			break // enough to refuse the body
		}
		field, known := fields[name]
		if !known {
			faults = append(faults, service.FieldError{Field: shorten(prefix + name), Code: "unknown",
				Detail: "there is no such field; there are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")})
			continue
		}
		value := object[name]
		if string(value) == "null" {
			faults = append(faults, service.FieldError{Field: prefix + name, Code: "type", Detail: "must be " +
				kindOf(field.Type()) + "; leave the field out if it is not meant to be given"})
			continue
		}
		if inner := field.Type(); inner.Kind() == reflect.Pointer && inner.Elem().Kind() == reflect.Struct &&
			!isText(inner.Elem()) {
			field.Set(reflect.New(inner.Elem()))
			faults = append(faults, fill(prefix+name+".", value, field.Elem())...)
			continue
		}
		if most := mostBytes(name, field.Type()); len(value) > most {
			faults = append(faults, service.FieldError{Field: prefix + name, Code: "too_large",
				Detail: fmt.Sprintf("it has %d bytes, at most %d are allowed", len(value), most)})
			continue
		}
		if err := json.Unmarshal(value, field.Addr().Interface()); err != nil {
			faults = append(faults, service.FieldError{Field: prefix + name, Code: "type", Detail: "must be " +
				kindOf(field.Type())})
		} else if at, ok := field.Interface().(page.Time); ok && at.IsZero() { // it would count as not given
			faults = append(faults, service.FieldError{Field: prefix + name, Code: "invalid",
				Detail: "it is in the past"})
		}
	}
	return faults
}

// fieldsOf are the fields of a JSON object. If it has more than maxFields, it returns one more than that: a field takes
// many times its bytes in memory.
func fieldsOf(text []byte) (fields map[string]json.RawMessage, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, false
	}
	fields = map[string]json.RawMessage{}
	for d.More() && len(fields) <= maxFields {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		fields[name.(string)] = value
	}
	return fields, true
}

// mostBytes is how long the value of a field may be.
func mostBytes(name string, of reflect.Type) int {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case name == "start_urls":
		return maxBody
	case of.Kind() == reflect.String:
		return maxText
	}
	return maxValue
}

// isText says whether values of a struct are JSON strings, such as times.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// kindOf is what a field takes, in words.
func kindOf(t reflect.Type) string {
	if isText(t) {
		return "a time such as 2026-01-31T12:00:00Z"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list, each item " + kindOf(t.Elem())
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

// shorten cuts a name that a client made up.
func shorten(name string) string { return words.Shorten(name, 100) }
