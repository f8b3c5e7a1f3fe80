package serve

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/mapwright/mapwright/internal/config"
)

//go:embed openapi.yaml
var openapiYAML []byte

// openAPI is the OpenAPI document as JSON, and the same compressed.
type openAPI struct{ text, short []byte }

func newOpenAPI(base string) (openAPI, error) {
	text, err := Document(base)
	return openAPI{text, compress(text)}, err
}

// Document is the OpenAPI document as JSON, for a server below a base path. The settings of a crawl are those of the
// program's table.
func Document(base string) ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openapiYAML, &doc); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	if base != "" {
		doc["servers"] = []any{map[string]any{"url": base}}
	}
	properties := map[string]any{config.ProfileName: map[string]any{"type": "string", "enum": config.Profiles()}}
	for _, e := range config.Defaults(config.Polite).Table() {
		properties[config.FileKey(e.Name)] = map[string]any{"type": []string{"string", "number", "boolean", "array",
			"null"}, "description": e.Usage, "default": e.Value.JSON()}
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	schemas["Settings"].(map[string]any)["properties"] = properties
	return json.Marshal(doc)
}
