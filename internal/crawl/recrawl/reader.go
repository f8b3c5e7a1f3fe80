package recrawl

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
)

// factReader, followed by a generation, is the name of a fact. Its value is the Reader that read the pages of that
// generation, or readersDiffer. In a crawl of several machines each partition has such a fact, with the number of the
// partition at the end.
const factReader = "reader "

// inPartition is the end of the name of a reader's fact of a partition.
func inPartition(p uint8) string { return " " + strconv.Itoa(int(p)) }

// readersDiffer is the value if runs of one generation read pages in different ways.
const readersDiffer = "several"

// Reader returns a hash of how pages are read: everything that the facts of a page depend on beside the page itself,
// such as the version of the parser.
func Reader(how []string) string {
	h := xxhash.New()
	for _, text := range how {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		_, _ = h.Write(size[:])
		_, _ = h.WriteString(text)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// ReaderFact returns the fact to record when a run begins in a generation. Facts are those that are recorded so far.
func ReaderFact(facts map[string][]byte, generation uint32, reader string) frontier.CrawlFact {
	return readerFact(facts, generation, reader, "")
}

// ReaderFactOf returns the fact to record when a partition is opened in a generation, by one of several machines.
func ReaderFactOf(p uint8, facts map[string][]byte, generation uint32, reader string) frontier.CrawlFact {
	fact := readerFact(facts, generation, reader, inPartition(p))
	fact.Partition = p
	return fact
}

func readerFact(facts map[string][]byte, generation uint32, reader, of string) frontier.CrawlFact {
	name := factReader + strconv.FormatUint(uint64(generation), 10) + of
	if had := string(facts[name]); had != "" && had != reader {
		reader = readersDiffer
	}
	return frontier.CrawlFact{Name: name, Value: []byte(reader)}
}

// readersLike returns the generations whose facts were all read by the given reader. Of is empty or says of which
// partition.
func readersLike(facts map[string][]byte, reader, of string) map[uint32]bool {
	like := map[uint32]bool{}
	for name, value := range facts {
		name, isReader := strings.CutPrefix(name, factReader)
		generation, isOf := strings.CutSuffix(name, of)
		if !isReader || !isOf || string(value) != reader {
			continue
		}
		if n, err := strconv.ParseUint(generation, 10, 32); err == nil {
			like[uint32(n)] = true
		}
	}
	return like
}
