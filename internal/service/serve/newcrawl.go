package serve

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
)

// newView is what the form shows.
type newView struct {
	frame
	Fault  string  // of the submission as a whole
	Faults []field // with errors, to be named above the form
	Starts field
	Main   []field    // settings that people change
	About  []field    // name, labels, priority
	Rest   []fieldSet // the other settings
	Open   bool       // the other settings are shown
	Key    string     // idempotency key: the same form sent twice is one crawl
}

// fieldSet is a group of settings.
type fieldSet struct {
	Title  string
	Fields []field
}

// field is one field of the form.
type field struct {
	Name    string // of the form's value; its id is the same
	Label   string
	Usage   string
	Default string
	Value   string
	Kind    string   // text, number, area or choice
	Choices []string // of a choice; the first, empty one is the default
	Note    string   // who may use it
	Errors  []string
}

// mainSettings are those that people change, in the order of the form.
func mainSettings() []string {
	return []string{config.ProfileName, "max_urls", "max_depth", "duration", "scope", "include", "exclude"}
}

// showNew shows the form for a new crawl. Its fields come from the settings table, with what the caller may use.
func (c *call) showNew() error {
	values := url.Values{}
	if id := c.r.URL.Query().Get("from"); id != "" {
		crawl, err := c.Service.Crawls.Get(c.ctx, c.caller, id)
		if err != nil {
			return err
		}
		values = formOf(crawl)
	}
	if starts := c.r.URL.Query().Get("url"); starts != "" {
		values.Set("start_urls", starts)
	}
	return c.render(http.StatusOK, "new", c.newForm(values, nil))
}

// formOf are the values of the form that would submit a crawl like another one.
func formOf(crawl *service.Crawl) url.Values {
	values := url.Values{"start_urls": {strings.Join(crawl.StartURLs, "\n")}, "name": {crawl.Name},
		"labels": {strings.Join(crawl.Labels, ", ")}, "priority": {strconv.Itoa(crawl.Priority)}}
	for name, value := range crawl.Settings {
		values.Set("settings."+name, settingText(value))
	}
	return values
}

// settingText is the value of a setting as the form shows it: a list has one item in a line.
func settingText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []string:
		return strings.Join(v, "\n")
	case []any:
		lines := make([]string, len(v))
		for i, item := range v {
			lines[i] = settingText(item)
		}
		return strings.Join(lines, "\n")
	case json.RawMessage:
		var inner any
		if json.Unmarshal(v, &inner) == nil {
			return settingText(inner)
		}
		return string(v)
	}
	return service.ToJSON(value)
}

// postNew makes a crawl of the form, or shows the form again with every fault beside its field.
func (c *call) postNew() error {
	form := c.r.PostForm
	sub := service.Submission{Name: strings.TrimSpace(form.Get("name")), StartURLs: lines(form.Get("start_urls")),
		Labels: commaList(form.Get("labels")), Settings: map[string]json.RawMessage{}}
	var faults []service.FieldError
	if text := strings.TrimSpace(form.Get("priority")); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			faults = append(faults, service.FieldError{Field: "priority", Code: "bad_value",
				Detail: "it must be a whole number from 0 to 9"})
		}
		sub.Priority = &n
	}
	for _, info := range config.Info(config.Defaults(config.Polite)) {
		if value := settingJSON(info, form.Get("settings."+info.Name)); value != nil {
			sub.Settings[info.Name] = value
		}
	}
	err := service.Invalid("the form", faults)
	if err == nil {
		var crawl *service.Crawl
		if crawl, err = c.Service.Crawls.Submit(c.ctx, c.caller, sub, form.Get("key")); err == nil {
			return c.to("/crawls/" + url.PathEscape(crawl.ID))
		}
	}
	known, ok := errors.AsType[*service.Error](err)
	shown := []service.ErrorCode{service.ErrPlanLimit, service.ErrDiskFull, service.ErrUnavailable}
	if !ok || len(known.Fields) == 0 && !slices.Contains(shown, known.Code) {
		return err
	}
	v := c.newForm(form, known.Fields)
	v.Fault = ui.Capital(known.Detail)
	return c.render(known.Code.Status(), "new", v)
}

// lines are the lines of a text that are not empty.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// settingJSON is the value of a setting for a submission, or nil if the field is empty. Settings take their values as
// texts.
func settingJSON(info config.SettingInfo, text string) json.RawMessage {
	var value any = strings.TrimSpace(text)
	if info.List {
		value = lines(text)
	}
	if value == "" || info.List && len(value.([]string)) == 0 {
		return nil
	}
	return json.RawMessage(service.ToJSON(value))
}

// newForm is the form with values and faults.
func (c *call) newForm(values url.Values, faults []service.FieldError) *newView {
	v := &newView{frame: c.frame("New crawl", "new"), Key: rand.Text()}
	byField := map[string][]string{}
	for _, f := range faults {
		name, detail := f.Field, f.Detail
		if list, index, ok := strings.Cut(name, "["); ok { // such as start_urls[2]
			if n, err := strconv.Atoi(strings.TrimSuffix(index, "]")); err == nil {
				name, detail = list, fmt.Sprintf("number %d: %s", n+1, f.Detail)
			}
		}
		byField[name] = append(byField[name], detail)
	}
	fill := func(f field) field {
		f.Usage, f.Value, f.Errors = ui.Capital(f.Usage), values.Get(f.Name), byField[f.Name]
		delete(byField, f.Name)
		if len(f.Errors) > 0 {
			v.Faults = append(v.Faults, f)
		}
		return f
	}
	v.Starts = fill(field{Name: "start_urls", Label: "Start URLs", Usage: "one in a line; the crawl begins there",
		Kind: "area"})
	infos := config.Info(config.Defaults(config.Polite))
	for _, name := range mainSettings() {
		if at := slices.IndexFunc(infos, func(i config.SettingInfo) bool { return i.Name == name }); at >= 0 {
			v.Main = append(v.Main, fill(settingField(infos[at])))
		}
	}
	v.About = []field{fill(field{Name: "name", Label: "Name",
		Usage: "how lists call the crawl; its first start URL if it is empty", Kind: "text"}),
		fill(field{Name: "labels", Label: "Labels", Usage: "words to find it by, with commas between them",
			Kind: "text"}),
		fill(field{Name: "priority", Label: "Priority", Usage: "0 to 9; higher ones start first", Kind: "number",
			Default: "5"})}
	above := len(v.Faults)
	for _, info := range infos {
		if slices.Contains(mainSettings(), info.Name) || !mayUse(c.caller, &info) {
			continue
		}
		if n := len(v.Rest); n == 0 || v.Rest[n-1].Title != string(info.Group) {
			v.Rest = append(v.Rest, fieldSet{Title: string(info.Group)})
		}
		set := &v.Rest[len(v.Rest)-1]
		f := fill(settingField(info))
		v.Open = v.Open || f.Value != ""
		set.Fields = append(set.Fields, f)
	}
	v.Open = v.Open || len(v.Faults) > above
	for name, texts := range byField { // of fields that the form does not have
		v.Faults = append(v.Faults, field{Label: name, Errors: texts})
	}
	return v
}

// mayUse says whether the form offers a setting to a caller. What it offers may still be refused, with the reason.
func mayUse(caller *service.Caller, info *config.SettingInfo) bool {
	switch info.Permission {
	case config.Tenant:
		return true
	case config.OwnHost:
		return info.Free != nil || len(caller.Account.OwnHosts) > 0 || caller.Has(service.ScopeAdmin)
	case config.Admin:
		return info.Free != nil || caller.Has(service.ScopeAdmin)
	}
	return false
}

func settingField(info config.SettingInfo) field {
	f := field{Name: "settings." + info.Name, Label: ui.Capital(strings.ReplaceAll(strings.ReplaceAll(info.Name, "_",
		" "), "urls", "URLs")),
		Usage: strings.ReplaceAll(info.Usage, "(repeatable)", "(one in a line)"), Default: settingText(info.Default),
		Kind: "text"}
	switch {
	case info.List:
		f.Kind = "area"
	case len(info.Choices) > 0:
		f.Kind, f.Choices = "choice", info.Choices
	case info.Default == true, info.Default == false:
		f.Kind, f.Choices = "choice", []string{"true", "false"}
	}
	if (f.Default == "0" || f.Default == "-1") && strings.Contains(f.Usage, f.Default+" is no limit") {
		f.Default = "no limit"
	}
	switch info.Permission {
	case config.OwnHost:
		f.Note = "hosts that an admin granted to the account"
	case config.Admin:
		f.Note = "admins"
	}
	if f.Note != "" && info.Free != nil {
		f.Note = "Values beyond the usual range are for " + f.Note + "."
	} else if f.Note != "" {
		f.Note = "Only for " + f.Note + "."
	}
	return f
}
