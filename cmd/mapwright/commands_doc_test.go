package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
)

// commandsDoc is the page with the tables of commands, profiles and controls.
var commandsDoc = filepath.Join("..", "..", "docs", "commands.md")

// tableRows are the rows of the table below a heading of docs/commands.md, each without the cells outside.
func tableRows(t *testing.T, heading string) [][]string {
	t.Helper()
	text, err := os.ReadFile(commandsDoc)
	if err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(string(text), "\n## "+heading+"\n")
	below, _, _ = strings.Cut(below, "\n## ")
	var rows [][]string
	for line := range strings.Lines(below) {
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|---") {
			line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, "/")
			rows = append(rows, strings.Split(strings.Trim(line, "|"), "|"))
		}
	}
	if len(rows) < 2 {
		t.Fatalf("docs/commands.md has no table below %q", heading)
	}
	return rows[1:]
}

// numbersIn are the numbers of a text, those with commas as one.
func numbersIn(text string) []string {
	return regexp.MustCompile(`\d+(\.\d+)?`).FindAllString(strings.ReplaceAll(text, ",", ""), -1)
}

// The defaults and the variables of the controls in docs/commands.md are those of the program.
func TestDocumentedControls(t *testing.T) {
	table := map[string]config.Entry{}
	for _, e := range config.Defaults(config.Polite).Table() {
		table[e.Name] = e
	}
	rows := tableRows(t, "The ten controls")
	if len(rows) != 10 {
		t.Errorf("%d controls", len(rows))
	}
	for _, row := range rows {
		names := regexp.MustCompile("`(--)?([A-Za-z_-]+)`").FindAllStringSubmatch(row[3], -1)
		e, ok := table[names[0][2]]
		if !ok {
			t.Errorf("%s is no setting", names[0][2])
			continue
		}
		if value := e.Value.String(); !strings.Contains(row[2], "by profile") &&
			!slices.Contains(numbersIn(row[2]), value) {
			t.Errorf("docs/commands.md gives %s for --%s, the program %s", row[2], e.Name, value)
		}
		for _, name := range names[1:] {
			if name[1] == "" && !slices.Contains(e.Env, name[2]) {
				t.Errorf("docs/commands.md gives the variable %s for --%s, the program %q", name[2], e.Name, e.Env)
			}
		}
	}
}

// The table of profiles in docs/commands.md has the values of the program.
func TestDocumentedProfiles(t *testing.T) {
	rows := tableRows(t, "Profiles")
	for column, profile := range []config.Profile{config.Polite, config.OwnSite, config.Safe} {
		s := config.Defaults(profile)
		for i, want := range []struct {
			name   string
			values []int // none: the cell has no number
		}{
			{"global workers", []int{s.MaxWorkers}},
			{"in flight per host", []int{s.MaxInflightPerHost}},
			{"delay between request starts", nonZero(s.MinDelayMS, s.MaxDelayMS)},
			{"pages", nonZero(s.MaxURLs)},
			{"wall time", nonZero(int(s.Duration / time.Second))},
		} {
			cell := rows[i][1+column]
			if !strings.Contains(rows[i][0], want.name) {
				t.Fatalf("row %d is %s, want %s", i+1, rows[i][0], want.name)
			}
			found := numbersIn(cell)
			for _, n := range want.values {
				if !slices.Contains(found, strconv.Itoa(n)) {
					t.Errorf("%s of %s is %q in docs/commands.md, the program has %d", want.name, profile, cell, n)
				}
			}
			if len(want.values) == 0 && len(found) > 0 {
				t.Errorf("%s of %s is %q in docs/commands.md, the program has none", want.name, profile, cell)
			}
		}
	}
}

func nonZero(numbers ...int) []int {
	return slices.DeleteFunc(numbers, func(n int) bool { return n == 0 })
}

// docs/commands.md and help give the exit statuses of the program.
func TestExitStatusesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(commandsDoc)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^Exit status: .*`).FindString(string(text))
	var readme, help []string
	for _, m := range regexp.MustCompile(`\*\*(\d+)\*\* (\w+)`).FindAllStringSubmatch(line, -1) {
		readme = append(readme, m[1]+" "+m[2])
	}
	for _, m := range regexp.MustCompile(`(?m)^  (\d+) +(\w+)`).FindAllStringSubmatch(exitStatuses, -1) {
		help = append(help, m[1]+" "+m[2])
	}
	want := []string{
		fmt.Sprint(exitComplete, " complete"), fmt.Sprint(exitFailed, " failed"), fmt.Sprint(exitUsage, " bad"),
		fmt.Sprint(exitPartial, " partial"),
		fmt.Sprint(exitInterrupted, " interrupted"),
	}
	if !slices.Equal(readme, want) || !slices.Equal(help, want) {
		t.Errorf("docs/commands.md has %q, help %q, the program %q", readme, help, want)
	}
}

// docs/commands.md lists the commands of the program, and those that take --json.
func TestDocumentedCommands(t *testing.T) {
	var listed, commands, withJSON []string
	for _, row := range tableRows(t, "Commands") {
		for _, m := range regexp.MustCompile("`([a-z]+)[ `]").FindAllStringSubmatch(row[0], -1) {
			listed = append(listed, m[1])
		}
	}
	for _, cmd := range newRoot(nil, stdio{&bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}}).Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			commands = append(commands, cmd.Name())
			if cmd.Flags().Lookup("json") != nil {
				withJSON = append(withJSON, cmd.Name())
			}
		}
	}
	if !slices.Contains(commands, "completion") { // which cobra adds when a command line is read
		commands = append(commands, "completion")
	}
	slices.Sort(listed)
	slices.Sort(commands)
	if !slices.Equal(listed, commands) {
		t.Errorf("docs/commands.md lists the commands %q, the program has %q", listed, commands)
	}
	text, err := os.ReadFile(commandsDoc)
	if err != nil {
		t.Fatal(err)
	}
	sentence := regexp.MustCompile("(?m)^(`.*) take `--json`").FindStringSubmatch(string(text))
	if sentence == nil {
		t.Fatal("docs/commands.md does not say which commands take --json")
	}
	var named []string
	for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(sentence[1], -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	slices.Sort(withJSON)
	if !slices.Equal(named, withJSON) {
		t.Errorf("docs/commands.md says that %q take --json, in the program %q do", named, withJSON)
	}
}
