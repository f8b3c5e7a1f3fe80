package web

import (
	"context"
	"net/http"

	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/datadir"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/service"
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

// Crawls are the crawls that pages show and change.
type Crawls interface {
	Submit(ctx context.Context, caller *service.Caller, sub service.Submission, key string) (*service.Crawl, error)
	Get(ctx context.Context, caller *service.Caller, id string) (*service.Crawl, error)
	List(ctx context.Context, caller *service.Caller, f service.CrawlFilter) (*service.List[*service.Crawl], error)
	Queue(ctx context.Context, caller *service.Caller) ([]*service.Crawl, error)
	Command(ctx context.Context, caller *service.Caller, id string, command service.Command, recrawl *service.Recrawl) (*service.Crawl, error)
}

// Runs are the crawls as they run, and their files. The caller of these methods has found the crawl before.
type Runs interface {
	Live(id string) *monitor.Live
	Running(id string) *crawl.Crawl
	DataDir(id string) datadir.Dir
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
