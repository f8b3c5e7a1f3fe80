package testweb

import (
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// ReadConfig reads a config in JSON or YAML. Fields go by the names of their tags,
// durations are written as in Go ("150ms"), and a name that is not known is an error.
func ReadConfig(r io.Reader) (Config, error) {
	var c Config
	d := yaml.NewDecoder(r)
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	return c, nil
}
