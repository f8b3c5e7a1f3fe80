package web

import (
	"context"
	"net/http"

	"github.com/mapwright/mapwright/internal/crawl/datadir"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/hosts"
	"github.com/mapwright/mapwright/internal/service/schedules"
)

// Sessions tells who asks. The server of the HTTP API implements it.
type Sessions interface {
	// Session finds the caller of a request, and the token that forms of its session carry. The error is a *service.Error.
	Session(w http.ResponseWriter, r *http.Request) (caller *service.Caller, token string, err error)
	// CheckForm refuses a form that does not come from a page of the session. The field csrf has the token.
	CheckForm(r *http.Request, token string) error
	// EndSession ends the session of a request.
	EndSession(w http.ResponseWriter, r *http.Request) error
}

// Crawls are the crawls that pages show.
type Crawls interface {
	Get(ctx context.Context, caller *service.Caller, id string) (*service.Crawl, error)
	List(ctx context.Context, caller *service.Caller, f service.CrawlFilter) (*service.List[*service.Crawl], error)
	Queue(ctx context.Context, caller *service.Caller, f service.CrawlFilter) (*service.List[*service.Crawl], error)
	Runs(ctx context.Context, caller *service.Caller, id string) ([]service.Run, error)
}

// Commands are what forms do to crawls.
type Commands interface {
	Submit(ctx context.Context, caller *service.Caller, sub service.Submission, key string) (*service.Crawl, error)
	Edit(ctx context.Context, caller *service.Caller, id string, e service.Edit) (*service.Crawl, error)
	Command(ctx context.Context, caller *service.Caller, id string, command service.Command, recrawl *service.Recrawl) (*service.Crawl, error)
}

// Runs are the crawls as they run, and their files. The caller of these methods has found the crawl before.
type Runs interface {
	Live(id string) *monitor.Live
	Recorded(id string) service.PageReader
	DataDir(id string) datadir.Dir
}

// Events are what happened.
type Events interface {
	Last(ctx context.Context) (id int64, err error)
}

// Accounts are what the settings page shows of the caller's account.
type Accounts interface {
	Usage(ctx context.Context, id string) (service.Usage, error)
	Keys(ctx context.Context, account string) ([]service.Key, error)
	CreateKey(ctx context.Context, caller *service.Caller, k service.Key) (service.Key, error)
	RevokeKey(ctx context.Context, caller *service.Caller, account, id string) error
}

// Audit is the log of who did what, newest first.
type Audit interface {
	List(ctx context.Context, account string, before int64, limit int) ([]service.AuditEntry, error)
}

// Schedules start crawls at given times.
type Schedules interface {
	List(ctx context.Context, account string) ([]service.Schedule, error)
	Create(ctx context.Context, caller *service.Caller, in schedules.Input) (*service.Schedule, error)
	Edit(ctx context.Context, caller *service.Caller, id string, in schedules.Input) (*service.Schedule, error)
	Delete(ctx context.Context, caller *service.Caller, id string) error
}

// Webhooks are addresses that are told of events.
type Webhooks interface {
	List(ctx context.Context, account string) ([]service.Webhook, error)
	Create(ctx context.Context, caller *service.Caller, in hooks.Input) (*service.Webhook, error)
	Delete(ctx context.Context, caller *service.Caller, id string) error
	Edit(ctx context.Context, caller *service.Caller, id string, in hooks.Input) (*service.Webhook, error)
	Test(ctx context.Context, caller *service.Caller, id string) (*service.Delivery, error)
	Redeliver(ctx context.Context, caller *service.Caller, id, delivery string) (*service.Delivery, error)
	Deliveries(ctx context.Context, caller *service.Caller, id, cursor string, limit int) (service.List[service.Delivery], error)
}

// Hosts are the hosts that crawls ask.
type Hosts interface {
	List(ctx context.Context, cursor string, limit int) (service.List[*hosts.Host], error)
	Deny(ctx context.Context, caller *service.Caller, name, reason string) (*hosts.Host, error)
	Allow(ctx context.Context, caller *service.Caller, name string) (*hosts.Host, error)
}
