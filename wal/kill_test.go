package wal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

const childEnv = "WAL_TEST_CHILD_DIR"

// childMain appends to a log until it is killed, printing each LSN when
// it is durable. It reports whether this process is such a child.
func childMain() bool {
	dir := os.Getenv(childEnv)
	if dir == "" {
		return false
	}
	l, err := Open(dir, Options{SegmentSize: 256 << 10})
	if err != nil {
		fmt.Println(err)
		return true
	}
	for id := int(l.Last()) + 1; ; id++ {
		lsn, err := l.Append(testRecord(id, id*31%9000))
		if err != nil {
			fmt.Println(err)
			return true
		}
		fmt.Println(lsn)
		if lsn%40 == 0 {
			if err := l.TruncateBefore(lsn - 20); err != nil {
				fmt.Println(err)
				return true
			}
		}
	}
}

// TestKill kills a process that writes to a log on the real file system.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	for opening := range 5 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		acked := 0
		lines := bufio.NewScanner(out)
		for seen := 0; lines.Scan(); seen++ {
			if acked, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatalf("child says %q", lines.Text())
			}
			if seen == 50+opening*17 {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait()

		l, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if int(l.Last()) < acked {
			t.Errorf("opening %d: last is %d, %d was acknowledged", opening, l.Last(), acked)
		}
		recs, err := contents(l)
		if err != nil {
			t.Fatal(err)
		}
		for i, rec := range recs {
			id := int(l.First()) + i
			if string(rec) != string(testRecord(id, id*31%9000)) {
				t.Errorf("record %d differs", id)
			}
		}
		mustClose(t, l)
	}
}
