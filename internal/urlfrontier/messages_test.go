package urlfrontier

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/mapwright/mapwright/internal/urlfrontier/urlfrontierpb"
	"github.com/mapwright/mapwright/internal/urlqueue"
)

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is read and written by hand is what the generated code reads and writes. Metadata comes back the same.
func TestMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		text := func() string {
			return string([]rune{'a', 'é', '世', '\n'}[r.IntN(4)]) + string(make([]byte, r.IntN(200)))
		}
		info := &pb.URLInfo{Url: "http://example.com/" + text(), Key: "k" + text(), CrawlID: "c" + text(),
			Metadata: map[string]*pb.StringList{}}
		for range r.IntN(4) {
			info.Metadata[text()] = &pb.StringList{Values: []string{text(), text()}}
		}
		sent := &pb.URLItem{ID: text()}
		known := r.IntN(2) == 0
		refetch := uint64(0)
		if known {
			refetch = r.Uint64() >> r.IntN(64)
			sent.Item = &pb.URLItem_Known{Known: &pb.KnownURLItem{Info: info, RefetchableFromDate: refetch}}
		} else {
			sent.Item = &pb.URLItem_Discovered{Discovered: &pb.DiscoveredURLItem{Info: info}}
		}
		var item urlqueue.Item
		id, err := readItem(marshal(t, sent), &item)
		if err != nil || string(id) != sent.GetID() || string(item.URL) != info.GetUrl() ||
			string(item.Key) != info.GetKey() || string(item.Crawl) != info.GetCrawlID() ||
			item.Known != known || item.Refetch != refetch {
			t.Fatalf("read %v as %+v, %v", sent, item, err)
		}
		u := urlqueue.URL{Crawl: string(item.Crawl), Key: string(item.Key), Text: item.URL, Metadata: item.Metadata,
			Refetch: item.Refetch, Created: r.Uint64() >> r.IntN(64)}
		if n := len(appendInfo(nil, &u)); n != infoSize(&u) {
			t.Fatalf("a URLInfo has %d bytes, %d were said", n, infoSize(&u))
		}
		got, want := new(pb.URLItem), &pb.URLItem{CreationDate: u.Created,
			Item: &pb.URLItem_Known{Known: &pb.KnownURLItem{Info: info, RefetchableFromDate: refetch}}}
		if err := proto.Unmarshal(appendItem(nil, &u), got); err != nil || !proto.Equal(got, want) {
			t.Fatalf("wrote %v, want %v: %v", got, want, err)
		}
	}
}

func TestAcks(t *testing.T) {
	ack := new(pb.AckMessage)
	if err := proto.Unmarshal(appendAck(nil, []byte("id"), urlqueue.Skipped), ack); err != nil ||
		ack.GetID() != "id" || ack.GetStatus() != pb.AckMessage_SKIPPED {
		t.Errorf("ack is %v, %v", ack, err)
	}
	batch := new(pb.BatchAck)
	if err := proto.Unmarshal(appendBatchAck(nil, []byte("id"), []urlqueue.Status{urlqueue.OK, urlqueue.Skipped,
		urlqueue.Failed}), batch); err != nil || batch.GetID() != "id" || len(batch.GetStatuses()) != 3 ||
		batch.GetStatuses()[1] != pb.AckMessage_SKIPPED || batch.GetStatuses()[2] != pb.AckMessage_FAIL {
		t.Errorf("ack of a batch is %v, %v", batch, err)
	}
}

// Metadata that lies in several places of a message is joined, in its order.
func TestSplitMetadata(t *testing.T) {
	entry := func(key string) []byte {
		return marshal(t, &pb.URLInfo{Metadata: map[string]*pb.StringList{key: {Values: []string{"v"}}}})
	}
	m := protowire.AppendTag(entry("a"), infoURL, protowire.BytesType)
	m = protowire.AppendString(m, "http://a/")
	m = append(append(m, entry("b")...), entry("c")...)
	var item urlqueue.Item
	if err := readInfo(m, &item); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Join([][]byte{entry("a"), entry("b"), entry("c")}, nil); !bytes.Equal(item.Metadata, want) {
		t.Errorf("metadata is %q, want %q", item.Metadata, want)
	}
}

// No bytes make the reader panic, and what it refuses or takes is what the generated code does.
func FuzzReadItem(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x0a\x0d\x0a\x0b\x0a\x09http://a/"))
	f.Fuzz(func(t *testing.T, m []byte) {
		var item urlqueue.Item
		_, err := readItem(m, &item)
		if want := proto.Unmarshal(m, new(pb.URLItem)); err == nil && want != nil {
			t.Errorf("took what the generated code refuses: %v", want)
		}
	})
}

func TestHostOf(t *testing.T) {
	for url, want := range map[string]string{
		"http://gac.icann.org?language_id=9": "gac.icann.org",
		"https://Example.COM:8080/a?b#c":     "example.com",
		"http://user:pass@example.com/":      "example.com",
		"http://[2001:db8::1]:80/":           "[2001:db8::1]",
		"example.com/path":                   "example.com",
		"http:///path":                       "",
		"":                                   "",
	} {
		if got := string(hostOf([]byte(url))); got != want {
			t.Errorf("hostOf(%q) = %q, want %q", url, got, want)
		}
	}
}

func BenchmarkReadItem(b *testing.B) {
	m, err := proto.Marshal(&pb.URLItem{ID: "12345", Item: &pb.URLItem_Discovered{Discovered: &pb.DiscoveredURLItem{
		Info: &pb.URLInfo{Url: "https://host7.example.com/section/3/page-307.html", Key: "host7.example.com",
			Metadata: map[string]*pb.StringList{"source": {Values: []string{"seed"}}}}}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		var item urlqueue.Item
		for b.Loop() {
			if _, err := readItem(m, &item); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal(m, new(pb.URLItem)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
