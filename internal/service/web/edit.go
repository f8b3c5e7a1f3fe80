package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/service"
)

// editForm is the form that changes a crawl: what its state allows to change, and what people change.
type editForm struct {
	Name, Labels, Priority string
	MaxURLs, Duration      string // empty if the submission did not give them
	Fault                  *service.Error
}

// editFormOf is the form of a crawl as it is.
func editFormOf(c *service.Crawl) *editForm {
	return &editForm{Name: c.Name, Labels: strings.Join(c.Labels, ", "), Priority: strconv.Itoa(c.Priority),
		MaxURLs: settingText(c.Settings["max_urls"]), Duration: durationText(c.Settings["duration"])}
}

// durationText writes a duration as people write it: 1h30m, and not the 5400 seconds that JSON has.
func durationText(value any) string {
	text := settingText(value)
	d, err := config.ParseDuration(text)
	if err != nil || d < time.Second {
		return text
	}
	text = d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if short, ok := strings.CutSuffix(text, zero); ok {
			text = short + zero[:1]
		}
	}
	return text
}

// editCrawl changes a crawl. Only values that differ are sent, so that a form that was open for long undoes nothing
// else.
func editCrawl(q *request, c *service.Crawl) error {
	was := editFormOf(c)
	get := func(name string) string { return strings.TrimSpace(q.r.PostForm.Get(name)) }
	form := &editForm{Name: get("name"), Labels: get("labels"), Priority: get("priority"), MaxURLs: get("max_urls"),
		Duration: get("duration")}
	e := service.Edit{}
	if form.Name != was.Name {
		e.Name = &form.Name
	}
	if form.Labels != was.Labels {
		e.Labels = new(commaList(form.Labels))
	}
	if form.Priority != was.Priority {
		n, err := strconv.Atoi(form.Priority)
		if err != nil {
			n = -1 // the service says what it must be
		}
		e.Priority = &n
	}
	for _, s := range []struct{ name, value, was string }{{"max_urls", form.MaxURLs, was.MaxURLs},
		{"duration", form.Duration, was.Duration}} {
		if s.value == s.was {
			continue
		}
		if e.Settings == nil {
			e.Settings = map[string]json.RawMessage{}
		}
		if e.Settings[s.name] = json.RawMessage("null"); s.value != "" {
			e.Settings[s.name] = json.RawMessage(service.ToJSON(s.value))
		}
	}
	_, err := q.server.o.Service.Crawls.Edit(q.r.Context(), q.caller, c.ID, e)
	if fault, ok := errors.AsType[*service.Error](err); ok && fault.Code != service.ErrNotFound {
		form.Fault = fault
		return q.renderCrawl(fault.Code.Status(), c, form, nil)
	}
	return q.then("/crawls/"+url.PathEscape(c.ID), err)
}

// commaList are the parts of a text between commas.
func commaList(text string) []string {
	all := []string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// showCrawl shows one crawl: while it runs its figures, afterwards what it found.
func showCrawl(q *request, c *service.Crawl) error {
	return q.renderCrawl(http.StatusOK, c, editFormOf(c), nil)
}
