package serve

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/schedules"
)

func document31(t *testing.T, base string) *openapi3.T {
	t.Helper()
	text, err := Document(base)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// The service.Document is valid OpenAPI 3.1.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	doc := document31(t, "/crawls")
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if !doc.IsOpenAPI31OrLater() || doc.Servers[0].URL != "/crawls" {
		t.Errorf("version %s, server %s", doc.OpenAPI, doc.Servers[0].URL)
	}
}

// The service.Document has the operations of the server and no others. Only the pages by which people log in are not in
// it.
func TestDocumentHasEveryRoute(t *testing.T) {
	t.Parallel()
	var described, served []string
	for path, item := range document31(t, "").Paths.Map() {
		for method, op := range item.Operations() {
			described = append(described, method+" "+path)
			if op.OperationID == "" || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s has no operationId, summary or tag", method, path)
			}
		}
	}
	s, err := New(Options{Service: &service.Service{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.routes() {
		if r.path != "/login" && r.path != "/logout" {
			served = append(served, r.method+" "+r.path)
		}
		if open := []string{"/healthz", "/readyz", "/openapi.json", "/problems/{code}",
			"/login"}; (r.scope == public) != slices.Contains(open, r.path) {
			t.Errorf("%s %s: scope %q", r.method, r.path, r.scope)
		}
		if r.scope == service.ScopeRead && r.method != "GET" && r.path != "/logout" {
			t.Errorf("%s %s changes something with the scope read", r.method, r.path)
		}
	}
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		for _, r := range described {
			if !slices.Contains(served, r) {
				t.Errorf("%s is described and not served", r)
			}
		}
		for _, r := range served {
			if !slices.Contains(described, r) {
				t.Errorf("%s is served and not described", r)
			}
		}
	}
}

// The schemas have the properties of the types.
func TestSchemasHaveEveryField(t *testing.T) {
	t.Parallel()
	doc := document31(t, "")
	for name, of := range map[string]reflect.Type{
		"Crawl": reflect.TypeFor[service.Crawl](), "Run": reflect.TypeFor[service.Run](),
		"Waiting": reflect.TypeFor[service.Waiting](), "Submission": reflect.TypeFor[service.Submission](),
		"Edit": reflect.TypeFor[service.Edit](), "Recrawl": reflect.TypeFor[service.Recrawl](),
		"Event": reflect.TypeFor[service.Event](), "Actor": reflect.TypeFor[service.Actor](),
		"Account": reflect.TypeFor[service.Account](), "AccountEdit": reflect.TypeFor[service.AccountEdit](),
		"AccountInput": reflect.TypeFor[accountInput](),
		"Key":          reflect.TypeFor[service.Key](), "KeyInput": reflect.TypeFor[keyInput](),
		"Plan":  reflect.TypeFor[service.Plan](),
		"Usage": reflect.TypeFor[service.Usage](), "AuditEntry": reflect.TypeFor[service.AuditEntry](),
		"Schedule":      reflect.TypeFor[service.Schedule](),
		"ScheduleInput": reflect.TypeFor[schedules.Input](), "ScheduleEdit": reflect.TypeFor[schedules.Input](),
		"WebhookInput": reflect.TypeFor[hooks.Input](), "WebhookEdit": reflect.TypeFor[hooks.Input](),
		"Host": reflect.TypeFor[hostAnswer](), "Webhook": reflect.TypeFor[service.Webhook](),
		"Delivery": reflect.TypeFor[service.Delivery](), "Me": reflect.TypeFor[me](),
		"Error": reflect.TypeFor[service.Document](), "SiteProblem": reflect.TypeFor[problems.Problem](),
		"Setting": reflect.TypeFor[config.SettingInfo](),
	} {
		schema := doc.Components.Schemas[name]
		if schema == nil {
			t.Errorf("there is no schema %s", name)
			continue
		}
		fields := map[string]bool{}
		addFields(fields, of)
		if properties := schema.Value.Properties; !slices.Equal(slices.Sorted(maps.Keys(properties)),
			slices.Sorted(maps.Keys(fields))) {
			t.Errorf("%s: the schema has %q, the type %q", name, slices.Sorted(maps.Keys(properties)),
				slices.Sorted(maps.Keys(fields)))
		}
		for _, required := range schema.Value.Required {
			if !fields[required] && !strings.HasSuffix(name, "Input") {
				t.Errorf("%s: %s is required, and the type leaves it out when it is empty", name, required)
			}
		}
	}
}

// addFields adds the JSON names of a struct's fields, with whether they are always there.
func addFields(names map[string]bool, of reflect.Type) {
	for i := range of.NumField() {
		f := of.Field(i)
		if f.Anonymous {
			addFields(names, f.Type)
			continue
		}
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = options == ""
	}
}

// The lists of states, scopes, events, waiting codes and problems are those of the program.
func TestListsOfTheDocument(t *testing.T) {
	t.Parallel()
	doc := document31(t, "")
	for name, want := range map[string][]string{"State": texts(service.States()), "Scope": texts(service.Scopes()),
		"EventType": texts(service.EventTypes())} {
		var got []string
		for _, v := range doc.Components.Schemas[name].Value.Enum {
			got = append(got, v.(string))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the service.Document has %q, the program %q", name, got, want)
		}
	}
}

func texts[T ~string](all []T) (out []string) {
	for _, one := range all {
		out = append(out, string(one))
	}
	return out
}
