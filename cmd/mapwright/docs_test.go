package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag that a document names exists. A default that a document gives for a flag is that of the program: in
// parentheses behind the flag, or in the table of docs/traps.md.
func TestDocumentsNameFlagsThatExist(t *testing.T) {
	flags := map[string]*pflag.Flag{"help": {}}
	var collect func(cmd *cobra.Command)
	collect = func(cmd *cobra.Command) {
		add := func(f *pflag.Flag) { flags[f.Name] = f }
		cmd.Flags().VisitAll(add)
		cmd.PersistentFlags().VisitAll(add)
		for _, sub := range cmd.Commands() {
			collect(sub)
		}
	}
	collect(newRoot(nil, stdio{&bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}}))
	documents, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	named, defaults := 0, 0
	for _, path := range append(documents, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`--([a-z][a-z0-9-]+)`).FindAllSubmatch(text, -1) {
			named++
			if flags[string(found[1])] == nil {
				t.Errorf("%s names %s, which is no flag", filepath.Base(path), found[0])
			}
		}
		for _, found := range regexp.MustCompile("`--([a-z-]+)` \\(([0-9][0-9.,]*)[;)]").FindAllSubmatch(text, -1) {
			defaults++
			want := string(bytes.ReplaceAll(found[2], []byte(","), nil))
			if f := flags[string(found[1])]; f != nil && f.DefValue != want {
				t.Errorf("%s says that --%s is %s, the program %s", filepath.Base(path), found[1], want, f.DefValue)
			}
		}
	}
	if named < 100 || defaults < 3 {
		t.Errorf("the documents name only %d flags and %d defaults: the search is broken", named, defaults)
	}
}
