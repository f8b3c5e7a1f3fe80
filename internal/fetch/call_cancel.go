package fetch

import (
	"context"
	"errors"
)

// context returns a context that ends with the call and leads to it. A request over
// a kept connection does without.
func (c *call) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived == nil {
		// It ends by the call alone, so that the cause is always known first.
		parent := context.WithValue(context.WithoutCancel(c.Context), callKey{}, c)
		c.derived, c.cancelDerived = context.WithCancelCause(parent)
		if why := c.causeLocked(); why != nil {
			c.cancelDerived(why)
		}
	}
	return c.derived
}

// cancel ends the call early. The first cause counts.
func (c *call) cancel(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelLocked(why)
}

func (c *call) cancelLocked(why error) {
	if c.ended || c.why != nil {
		return
	}
	c.why = why
	if c.cancelDerived != nil {
		c.cancelDerived(why)
	}
	if c.conn != nil {
		c.conn.interrupt()
	}
}

// cause is why the call is over, or nil.
func (c *call) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.causeLocked()
}

func (c *call) causeLocked() error {
	if c.why == nil && c.ended {
		return context.Canceled
	}
	return c.why
}

// attach gives the call a connection, unless the call is over.
func (c *call) attach(conn *directConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.causeLocked() != nil {
		return false
	}
	c.conn = conn
	return true
}

// detach lets go of the connection, and reports whether the call has left it as it
// was.
func (c *call) detach() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = nil
	return c.why == nil
}

// dialError is what a failure to connect means: that of a cancelled call is its
// cause.
func (c *call) dialError(err error) error {
	if _, refused := errors.AsType[*AddressError](err); refused || isFileLimit(err) {
		return err
	}
	if why := c.cause(); why != nil {
		return why
	}
	return err
}
