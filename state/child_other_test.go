//go:build !unix

package state

// This system cannot suspend a process.
func (c *child) stop() {
	c.t.Helper()
	c.t.Fatal("this system cannot suspend a process")
}

func (c *child) resume() {}
