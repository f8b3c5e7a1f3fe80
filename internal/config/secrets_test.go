package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A crawl stores files by their absolute paths and no credential. A resume names the settings whose secrets are
// missing, unless a flag or the environment gives them.
func TestCredentialsAreNotStored(t *testing.T) {
	s := mustLoad(t, flags("basic-auth", "ann:s3cret@a.test", "basic-auth", "@users.txt", "ca-file", "ca.pem")).Settings
	stored := s.Stored()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"(hidden)@a.test", "@" + filepath.Join(here, "users.txt")}
	if !reflect.DeepEqual(stored["basic-auth"], want) || stored["ca-file"][0] != filepath.Join(here, "ca.pem") {
		t.Errorf("stored: %q, %q", stored["basic-auth"], stored["ca-file"])
	}
	if shown := fmt.Sprint(s.Redacted().BasicAuth); shown != fmt.Sprint(want) {
		t.Errorf("shown: %s", shown)
	}
	given := Redact(map[string]json.RawMessage{"basic_auth": toJSON([]string{"ann:s3cret@a.test"})})
	if text := string(given["basic_auth"]); text != `["(hidden)@a.test"]` {
		t.Errorf("submitted settings are shown as %s", text)
	}
	if whole := s.StoredWithSecrets()["basic-auth"][0]; whole != "ann:s3cret@a.test" {
		t.Errorf("a service stores %q", whole)
	}
	env, err := FromEnv([]string{"MAPWRIGHT_BASIC_AUTH=bob:pw@a.test", "MAPWRIGHT_CA_FILE=/other.pem"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		process, over Layer
		missing, auth string
	}{
		{nil, nil, "basic-auth", ""},
		{env, nil, "", "bob:pw@a.test"},
		{env, flags("basic-auth", "eve:pw@a.test"), "", "eve:pw@a.test"},
		{nil, flags("basic-auth", ""), "", ""},
	} {
		got, err := Resume(stored, []Layer{test.process}, test.over)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(got.Missing, " ") != test.missing || strings.Join(got.Settings.BasicAuth, " ") != test.auth ||
			len(got.Warnings) > 0 {
			t.Errorf("missing %q, %q, warnings %q, want %+v", got.Missing, got.Settings.BasicAuth, got.Warnings, test)
		}
	}
	if got, err := Resume(stored, []Layer{env}); err != nil || got.Settings.CAFile != "/other.pem" {
		t.Errorf("the variable of this machine does not count: %v", err)
	}
}

// A file of items has blank lines and comments. Its faults name the line and not the text.
func TestReadItems(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# users\n\n ann:pw@a.test\r\nbob:pw@b.test")
	got, err := ReadItems([]string{"eve:pw@c.test", "@" + path}, checkBasicAuth)
	if want := "eve:pw@c.test ann:pw@a.test bob:pw@b.test"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%q, %v", got, err)
	}
	write("ann:pw@a.test\nbob:s3cret\n")
	_, err = ReadItems([]string{"@" + path, "@" + path + ".none"}, checkBasicAuth)
	if err == nil || !strings.Contains(err.Error(), "users line 2") || !strings.Contains(err.Error(), "no such file") ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
	write(strings.Repeat("x", maxItemsFile+1))
	if _, err := ReadItems([]string{"@" + path}, checkBasicAuth); err == nil {
		t.Error("a file of any size is read")
	}
}
