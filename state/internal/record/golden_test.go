package record

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// testdata/records.txt has the bytes of every kind of record, as the first writer with all sections made them. What was
// written must be read for ever, and the same record must have the same bytes: rows of a cluster's log are hashed.
// Each line is the name of a record and its bytes, or their hash if they are long.
// With RECORD_GOLDEN=1 in the environment the test writes the file instead; only a new section or field needs that.
func TestGoldenBytes(t *testing.T) {
	const path = "testdata/records.txt"
	var got strings.Builder
	line := func(name string, b []byte) {
		if len(b) > 4096 {
			fmt.Fprintf(&got, "%s: sha256 %x\n", name, sha256.Sum256(b))
			return
		}
		fmt.Fprintf(&got, "%s: %x\n", name, b)
	}
	records := someRecords()
	for _, name := range slices.Sorted(maps.Keys(records)) {
		r := records[name]
		line(name, Append(nil, 300, &r, &Bodies{}))
	}
	line("opened", AppendOpened(nil, 300, AllPartitions(), map[weburl.Key]UncleanEnds{
		key(1): {Count: 1}, {Host: 9 << 56, Lo: 1}: {Count: 200, Alone: 1},
	}))
	var closed PartitionSet
	closed.Add(7)
	closed.Add(200)
	line("closed", AppendClosed(nil, 300, closed, map[uint8]frontier.Closed{
		7: {At: ms(5), Hosts: []frontier.HostNotBefore{{Host: 7<<56 | 1, At: ms(9)}, {Host: 7<<56 | 2, At: ms(-9)}}},
		9: {At: ms(6)},
	}))
	if os.Getenv("RECORD_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("encoding has changed\n got %s\nwant %s", got.String(), want)
	}
}
