package serve

import (
	"context"
	"net/http"
	"slices"

	"github.com/mapwright/mapwright/internal/service"
)

// Handlers of things that accounts have, such as schedules and webhooks. Each calls a method of the package that keeps
// them.

// list makes the handler of a list of the caller's account or, for an admin, of another. id returns the id of an item;
// the list is in this order.
func list[T any](id func(T) string, load func(ctx context.Context, account string) ([]T, error)) func(*call) error {
	return func(c *call) error {
		q := c.query()
		account := c.account(q)
		return listed(c, q, id, func(ctx context.Context) ([]T, error) { return load(ctx, account) })
	}
}

// listed answers with a part of a list. The list is in the ascending order of the texts that of returns, which differ
// for all items. The cursor has the text of the last item of the part before.
func listed[T any](c *call, q *query, of func(T) string, load func(context.Context) ([]T, error)) error {
	cursor, limit := q.cursor(), q.number("limit", 1, mostItems, someItems)
	if err := q.done(); err != nil {
		return err
	}
	all, err := load(c.ctx)
	if err != nil {
		return err
	}
	if cursor != "" {
		from := slices.IndexFunc(all, func(item T) bool { return of(item) > cursor })
		if from < 0 {
			from = len(all)
		}
		all = all[from:]
	}
	list := service.List[T]{Items: append([]T{}, all[:min(limit, len(all))]...)}
	if len(all) > limit {
		list.NextCursor = cursorAt(of(all[limit-1]))
	}
	return c.json(http.StatusOK, list)
}

// place reads which part of a list the request asks for.
func (c *call) place() (cursor string, limit int, err error) {
	q := c.query()
	cursor, limit = q.cursor(), q.number("limit", 1, mostItems, someItems)
	return cursor, limit, q.done()
}

// create makes the handler that creates a thing from the body. address returns the path of the new thing.
func create[In, T any](address func(T) string, make func(context.Context, *service.Caller, In) (T,
	error)) func(*call) error {
	return func(c *call) error {
		var in In
		if err := c.body(&in); err != nil {
			return err
		}
		made, err := make(c.ctx, c.caller, in)
		if err != nil {
			return err
		}
		c.w.Header().Set("Location", c.link(address(made)))
		return c.json(http.StatusCreated, made)
	}
}

// get makes the handler that answers with the thing that the path names.
func get[T any](find func(ctx context.Context, c *service.Caller, id string) (T, error)) func(*call) error {
	return func(c *call) error { return c.reply(find(c.ctx, c.caller, c.id())) }
}

// edit makes the handler that changes the thing that the path names.
func edit[In, T any](change func(ctx context.Context, c *service.Caller, id string, in In) (T,
	error)) func(*call) error {
	return func(c *call) error {
		var in In
		if err := c.body(&in); err != nil {
			return err
		}
		return c.reply(change(c.ctx, c.caller, c.id(), in))
	}
}

// remove makes the handler that deletes the thing that the path names.
func remove(do func(ctx context.Context, c *service.Caller, id string) error) func(*call) error {
	return func(c *call) error { return c.noContent(do(c.ctx, c.caller, c.id())) }
}
