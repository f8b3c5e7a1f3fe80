package testweb

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Fault is something a host does that a crawler must cope with. The types of this
// package are the only faults. Each has a kind, the name it goes by in a config file
// or flag; its fields go by the names of their tags.
type Fault interface {
	// Kind returns the fault's name, such as "redirect_loop".
	Kind() string

	validate(Config) error
	install(*plan, *web)
}

// HostFault is a fault and the hosts that have it. In a config file it is one
// mapping: kind, hosts (missing means all), and the fields of the fault.
type HostFault struct {
	Hosts HostSet
	Fault Fault
}

// On gives some hosts faults.
func On(hosts HostSet, faults ...Fault) []HostFault {
	list := make([]HostFault, len(faults))
	for i, f := range faults {
		list[i] = HostFault{hosts, f}
	}
	return list
}

// OnAll gives every host faults.
func OnAll(faults ...Fault) []HostFault { return On("*", faults...) }

func (f HostFault) validate(c Config) error {
	if f.Fault == nil {
		return errors.New("no fault given")
	}
	err := errors.Join(f.Hosts.validate(c.Hosts), f.Fault.validate(c))
	if err != nil {
		return fmt.Errorf("%s: %w", f.Fault.Kind(), err)
	}
	return nil
}

// notNegative refuses a field of a fault that is below zero.
func notNegative[T int | time.Duration](name string, value T) error {
	if value < 0 {
		return fmt.Errorf("%s %v: want no less than 0", name, value)
	}
	return nil
}

// allFaults returns one of each kind of fault, in the order they are documented.
func allFaults() []Fault {
	return []Fault{
		&OverRate{}, &OverConcurrency{}, &RefuseFirst{}, &RefuseBursts{}, &RefuseAll{},
		&Slow{}, &Capacity{},
		&Hang{}, &Drip{}, &Reset{}, &Truncate{}, &Huge{}, &GzipBomb{},
		&StatusPages{}, &StaleConns{}, &NoKeepAlive{},
		&RedirectChain{}, &RedirectLoop{}, &Moved{},
		&CalendarTrap{}, &SessionTrap{}, &ParameterTrap{}, &PathTrap{}, &LongURL{},
		&WrongType{}, &Files{}, &Charsets{}, &Encodings{}, &Malformed{}, &LinkZoo{},
		&NoIndex{}, &Canonical{}, &NoFollow{}, &Hreflang{},
		&CrawlDelay{}, &Disallow{}, &Robots{},
		&Validators{}, &Down{},
	}
}

// Kinds returns the names of all faults.
func Kinds() []string {
	var names []string
	for _, f := range allFaults() {
		names = append(names, f.Kind())
	}
	return names
}

// newFault returns an empty fault of a kind.
func newFault(kind string) (Fault, error) {
	for _, f := range allFaults() {
		if f.Kind() == kind {
			return f, nil
		}
	}
	return nil, fmt.Errorf("no fault is called %q; there are %s", kind, strings.Join(Kinds(), ", "))
}

// UnmarshalYAML reads the one-mapping form.
func (f *HostFault) UnmarshalYAML(n *yaml.Node) error {
	var head struct {
		Kind  string  `yaml:"kind"`
		Hosts HostSet `yaml:"hosts"`
	}
	if err := n.Decode(&head); err != nil {
		return err
	}
	fault, err := newFault(head.Kind)
	if err != nil {
		return err
	}
	rest := *n
	rest.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i].Value; k != "kind" && k != "hosts" {
			rest.Content = append(rest.Content, n.Content[i], n.Content[i+1])
		}
	}
	if err := decodeStrict(&rest, fault); err != nil {
		return fmt.Errorf("%s: %w", head.Kind, err)
	}
	f.Hosts, f.Fault = head.Hosts, fault
	f.Hosts = cmp.Or(f.Hosts, "*")
	return nil
}

// decodeStrict decodes a node and refuses names that v does not have, which
// yaml.Node.Decode by itself cannot be told to.
func decodeStrict(n *yaml.Node, v any) error {
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	return d.Decode(v)
}

// ParseFault reads a fault from a flag: names and values in the form
// "kind=hang hosts=3-5 count=2 for=100ms".
func ParseFault(s string) (HostFault, error) {
	var f HostFault
	n, err := parseFields(s)
	if err == nil {
		err = f.UnmarshalYAML(n)
	}
	if err != nil {
		return HostFault{}, fmt.Errorf("fault %q: %w", s, err)
	}
	return f, nil
}

// parseFields reads names and values in the form of a flag.
func parseFields(s string) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for field := range strings.FieldsSeq(s) {
		name, value, ok := strings.Cut(field, "=")
		if !ok {
			return nil, fmt.Errorf("want name=value, not %q", field)
		}
		var v yaml.Node
		if err := yaml.Unmarshal([]byte(value), &v); err != nil || len(v.Content) != 1 {
			return nil, fmt.Errorf("bad value %q", value)
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, v.Content[0])
	}
	return n, nil
}
