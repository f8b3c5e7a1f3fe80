package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/record"
)

const (
	snapshotMagic   = "mwsnapsh"
	checkpointMagic = "mwcheckp"

	snapshotExt   = ".snap"
	checkpointExt = ".checkpoint"
)

// A Snapshot is a named blob that a checkpoint saved.
type Snapshot struct {
	Name    string
	Version uint32 // the caller's
	Size    int64
	file    string // name in the directory
}

// A checkpoint is the content of a checkpoint file.
type checkpoint struct {
	number    uint64            // 1 for the first
	position  frontier.Position // everything up to here is in the snapshots
	snapshots []Snapshot
}

func checkpointName(number uint64) string { return fmt.Sprintf("%016x%s", number, checkpointExt) }

func writeCheckpoint(dir string, c checkpoint) error {
	_, err := disk.WriteFrame(filepath.Join(dir, checkpointName(c.number)), checkpointMagic, record.Version,
		func(w io.Writer) error {
			b := binary.AppendUvarint(nil, c.number)
			b = binary.AppendUvarint(b, uint64(c.position))
			b = binary.AppendUvarint(b, uint64(len(c.snapshots)))
			for _, s := range c.snapshots {
				var body int
				b, body = record.BeginSized(b)
				b = record.AppendString(b, s.Name)
				b = record.AppendString(b, s.file)
				b = binary.BigEndian.AppendUint32(b, s.Version)
				b = binary.AppendUvarint(b, uint64(s.Size))
				b = record.EndSized(b, body)
			}
			_, err := w.Write(b)
			return err
		})
	return err
}

func readCheckpoint(path string) (checkpoint, error) {
	body, err := disk.ReadSmallFrame(path, checkpointMagic, record.Version)
	if err != nil {
		return checkpoint{}, err
	}
	r := record.Reader{B: body}
	c := checkpoint{number: r.Uvarint(), position: frontier.Position(r.Uvarint())}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		e := r.Sized()
		s := Snapshot{Name: string(e.Bytes()), file: string(e.Bytes())}
		if v := e.Take(4); len(v) == 4 {
			s.Version = binary.BigEndian.Uint32(v)
		}
		s.Size = int64(e.UpTo(1 << 62))
		if e.Bad || !strings.HasSuffix(s.file, snapshotExt) || filepath.Base(s.file) != s.file {
			return c, &CorruptError{What: path, Reason: "it does not decode"}
		}
		c.snapshots = append(c.snapshots, s)
	}
	return c, r.Done(path)
}

// loadCheckpoints returns the newest checkpoint that can be read, and the one
// before it, either of them empty if there is none. Unreadable is what was
// wrong with newer ones: filters can be made anew, so that is no reason to
// refuse the store.
func loadCheckpoints(dir string) (newest, before checkpoint, unreadable, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+checkpointExt))
	if err != nil {
		return newest, before, nil, err
	}
	slices.Sort(names)
	var found []checkpoint
	for _, name := range slices.Backward(names) {
		c, err := readCheckpoint(name)
		var newer *VersionError
		if errors.As(err, &newer) {
			return newest, before, nil, err
		}
		if err != nil {
			unreadable = errors.Join(unreadable, fmt.Errorf("read checkpoint: %w", err))
			continue
		}
		found = append(found, c)
	}
	if len(found) > 0 {
		newest = found[0]
	}
	if len(found) > 1 {
		before = found[1]
	}
	return newest, before, unreadable, nil
}

// sweepSnapshots deletes the files in dir that no checkpoint in keep names.
func sweepSnapshots(dir string, keep ...checkpoint) error {
	wanted := map[string]bool{}
	for _, c := range keep {
		wanted[checkpointName(c.number)] = true
		for _, s := range c.snapshots {
			wanted[s.file] = true
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		ours := strings.HasSuffix(name, snapshotExt) || strings.HasSuffix(name, checkpointExt) ||
			strings.HasSuffix(name, disk.TempSuffix)
		if !ours || wanted[name] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkpoint) find(name string) (Snapshot, bool) {
	i := slices.IndexFunc(c.snapshots, func(s Snapshot) bool { return s.Name == name })
	if i < 0 {
		return Snapshot{}, false
	}
	return c.snapshots[i], true
}
