package urlfrontier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/mapwright/mapwright/internal/urlfrontier/urlfrontierpb"
	"github.com/mapwright/mapwright/internal/urlqueue"
)

// serve starts a server on loopback and returns a client of it.
func serve(t *testing.T) (pb.URLFrontierClient, *slog.LevelVar) {
	t.Helper()
	store, err := urlqueue.Open(t.TempDir(), urlqueue.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	level := new(slog.LevelVar)
	server := New(store, Options{Address: "node:1", Level: level, Log: slog.New(slog.DiscardHandler)})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(conn.Close(), <-done, store.Close()); err != nil {
			t.Error(err)
		}
	})
	return pb.NewURLFrontierClient(conn), level
}

func known(info *pb.URLInfo, date uint64) *pb.URLItem {
	return &pb.URLItem{Item: &pb.URLItem_Known{Known: &pb.KnownURLItem{Info: info, RefetchableFromDate: date}}}
}

func discovered(info *pb.URLInfo) *pb.URLItem {
	return &pb.URLItem{Item: &pb.URLItem_Discovered{Discovered: &pb.DiscoveredURLItem{Info: info}}}
}

// put sends items and returns the acknowledgements as "ID STATUS".
func put(t *testing.T, c pb.URLFrontierClient, items ...*pb.URLItem) (acks []string) {
	t.Helper()
	stream, err := c.PutURLs(t.Context())
	for _, item := range items {
		err = errors.Join(err, stream.Send(item))
	}
	if err = errors.Join(err, stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	for {
		ack, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return acks
		}
		if err != nil {
			t.Fatal(err)
		}
		acks = append(acks, fmt.Sprint(ack.GetID(), " ", ack.GetStatus()))
	}
}

// all reads a stream to its end.
func all[T any](t *testing.T, stream grpc.ServerStreamingClient[T], err error) (got []*T) {
	t.Helper()
	for err == nil {
		var m *T
		if m, err = stream.Recv(); err == nil {
			got = append(got, m)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return got
}

func urls(t *testing.T, c pb.URLFrontierClient, req *pb.GetParams) (got []string) {
	t.Helper()
	stream, err := c.GetURLs(t.Context(), req)
	for _, info := range all(t, stream, err) {
		got = append(got, info.GetCrawlID()+" "+info.GetKey()+" "+info.GetUrl())
	}
	return got
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestCalls makes every call of the API.
func TestCalls(t *testing.T) {
	c, level := serve(t)
	ctx := context.Background()
	now := uint64(time.Now().Unix())
	same := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	must[*pb.Empty](t)(c.SetDelay(ctx, &pb.QueueDelayParams{}))
	metadata := map[string]*pb.StringList{"m": {Values: []string{"1", "2"}}}
	acks := put(t, c, discovered(&pb.URLInfo{Url: "http://A.test/1", Metadata: metadata}),
		discovered(&pb.URLInfo{Url: "http://a.test/1"}), discovered(&pb.URLInfo{Url: "http://A.test/1"}),
		discovered(&pb.URLInfo{Url: "/path"}), known(&pb.URLInfo{Url: "http://a.test/later", Key: "a.test"}, now+1000),
		known(&pb.URLInfo{Url: "http://a.test/sooner"}, now-1000), known(&pb.URLInfo{Url: "http://a.test/done"}, 0),
		&pb.URLItem{ID: "x", Item: discovered(&pb.URLInfo{Url: "http://b.test/", CrawlID: "other"}).Item})
	same("acknowledgements", strings.Join(acks, ", "), "http://A.test/1 OK, http://a.test/1 OK, "+
		"http://A.test/1 SKIPPED, /path SKIPPED, http://a.test/later OK, http://a.test/sooner OK, "+
		"http://a.test/done OK, x OK")

	same("crawls", must[*pb.StringList](t)(c.ListCrawls(ctx, &pb.Local{})).GetValues(), []string{"DEFAULT", "other"})
	same("queues", must[*pb.QueueList](t)(c.ListQueues(ctx, &pb.Pagination{})).GetValues(), []string{"a.test"})
	same("a later page of queues",
		must[*pb.QueueList](t)(c.ListQueues(ctx, &pb.Pagination{Start: 1})).GetValues(), []string{})
	same("count", must[*pb.Long](t)(c.CountURLs(ctx, &pb.CountUrlParams{})).GetValue(), 5)
	text, ignore := "A.TEST/S", true
	same("count with a filter", must[*pb.Long](t)(c.CountURLs(ctx,
		&pb.CountUrlParams{Filter: &text, IgnoreCase: &ignore})).GetValue(), 1)
	same("count with a filter that regards case",
		must[*pb.Long](t)(c.CountURLs(ctx, &pb.CountUrlParams{Filter: &text})).GetValue(), 0)

	// What is due, the earliest first; held URLs are not given again.
	param := &pb.GetParams{Key: "a.test", MaxUrlsPerQueue: 2, DelayRequestable: 1000,
		Item: &pb.GetParams_CrawlID{CrawlID: ""}}
	same("first URLs", urls(t, c, param),
		[]string{"DEFAULT a.test http://a.test/sooner", "DEFAULT a.test http://A.test/1"})
	same("while two are held", urls(t, c, param), []string{})
	stats := must[*pb.Stats](t)(c.GetStats(ctx, &pb.QueueWithinCrawlParams{Key: "a.test"}))
	same("stats", []any{stats.GetSize(), stats.GetInProcess(), stats.GetNumberOfQueues(),
		stats.GetCounts()["completed"],
		stats.GetCounts()["active_queues"], stats.GetCrawlID()}, []any{4, 2, 1, 1, 1, "DEFAULT"})
	item := must[*pb.URLItem](t)(c.GetURLStatus(ctx, &pb.URLStatusRequest{Url: "http://A.test/1"}))
	same("metadata", item.GetKnown().GetInfo().GetMetadata()["m"].GetValues(), []string{"1", "2"})
	if made := item.GetCreationDate(); made < now || made > now+1000 {
		t.Errorf("created at %d, it is %d", made, now)
	}

	// A known put ends the lease, keeps the date of creation and replaces metadata.
	put(t, c, known(&pb.URLInfo{Url: "http://A.test/1"}, now-5))
	again := must[*pb.URLItem](t)(c.GetURLStatus(ctx, &pb.URLStatusRequest{Url: "http://A.test/1", Key: "a.test"}))
	same("after a known put", []any{again.GetCreationDate(), again.GetKnown().GetRefetchableFromDate(),
		len(again.GetKnown().GetInfo().GetMetadata())}, []any{item.GetCreationDate(), now - 5, 0})
	same("after a known put", urls(t, c, param),
		[]string{"DEFAULT a.test http://A.test/1", "DEFAULT a.test http://a.test/1"})

	stream, err := c.ListURLs(ctx, &pb.ListUrlParams{Start: 1, Size: 3})
	same("list", len(all(t, stream, err)), 3)
	stream, err = c.ListURLs(ctx, &pb.ListUrlParams{Key: "a.test", CrawlID: "DEFAULT", Filter: new("done")})
	if got := all(t, stream, err); len(got) != 1 || got[0].GetKnown().GetRefetchableFromDate() != 0 {
		t.Errorf("list with a filter: %v", got)
	}

	for _, blocked := range []bool{true, false} {
		until := uint64(0)
		if blocked {
			until = now + 1000
		}
		must[*pb.Empty](t)(c.BlockQueueUntil(ctx, &pb.BlockQueueParams{Key: "b.test", CrawlID: "other", Time: until}))
		active := must[*pb.QueueList](t)(c.ListQueues(ctx, &pb.Pagination{CrawlID: "other"})).GetValues()
		same("queues while one is blocked", len(active) == 0, blocked)
		same("queues with inactive ones", len(must[*pb.QueueList](t)(c.ListQueues(ctx, &pb.Pagination{CrawlID: "other",
			IncludeInactive: true})).GetValues()), 1)
	}
	must[*pb.Empty](t)(c.SetActive(ctx, &pb.Active{State: false}))
	same("active", must[*pb.Boolean](t)(c.GetActive(ctx, &pb.Local{})).GetState(), false)
	same("URLs while not active", urls(t, c, &pb.GetParams{}), []string{})
	must[*pb.Empty](t)(c.SetActive(ctx, &pb.Active{State: true}))
	same("URLs of all crawls", urls(t, c, &pb.GetParams{Item: &pb.GetParams_AnyCrawlID{}}),
		[]string{"other b.test http://b.test/"})

	must[*pb.Empty](t)(c.SetCrawlLimit(ctx, &pb.CrawlLimitParams{Key: "a.test", Limit: 1}))
	put(t, c, known(&pb.URLInfo{Url: "http://a.test/limit"}, now))
	same("URLs beyond the limit", urls(t, c, &pb.GetParams{Key: "a.test", Item: &pb.GetParams_CrawlID{}}), []string{})
	must[*pb.Empty](t)(c.SetDelay(ctx, &pb.QueueDelayParams{Key: "nowhere", DelayRequestable: 3}))
	must[*pb.Empty](t)(c.SetLogLevel(ctx, &pb.LogLevelParams{Package: "p", Level: pb.LogLevelParams_WARN}))
	same("level", level.Level(), slog.LevelWarn)
	same("nodes", must[*pb.StringList](t)(c.ListNodes(ctx, &pb.Empty{})).GetValues(), []string{"node:1"})

	for code, err := range map[codes.Code]error{
		codes.NotFound: func() error {
			_, err := c.SetCrawlLimit(ctx, &pb.CrawlLimitParams{Key: "nowhere", Limit: 1})
			_, err2 := c.GetURLStatus(ctx, &pb.URLStatusRequest{Url: "http://nowhere.test/"})
			if status.Code(err2) != codes.NotFound {
				t.Errorf("status of an unknown URL: %v", err2)
			}
			return err
		}(),
		codes.InvalidArgument: func() error {
			s, err := c.GetURLs(ctx, &pb.GetParams{Key: "a.test"})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}(),
	} {
		same("code", status.Code(err), code)
	}
	same("purged", must[*pb.Long](t)(c.PurgeURLs(ctx, &pb.PurgeUrlParams{Days: 1})).GetValue(), 0)
	same("deleted from a queue", must[*pb.Long](t)(c.DeleteQueue(ctx, &pb.QueueWithinCrawlParams{Key: "b.test",
		CrawlID: "other"})).GetValue(), 1)
	same("deleted from a crawl", must[*pb.Long](t)(c.DeleteCrawl(ctx, &pb.DeleteCrawlMessage{})).GetValue(), 6)
	if left := must[*pb.StringList](t)(c.ListCrawls(ctx, &pb.Local{})).GetValues(); !slices.Equal(left, nil) {
		t.Errorf("crawls are left: %v", left)
	}
}

// TestBatches: one acknowledgement for a batch, with a status for each URL in its order.
func TestBatches(t *testing.T) {
	c, _ := serve(t)
	stream, err := c.PutDiscovered(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		batch := &pb.DiscoveredBatch{ID: fmt.Sprint("batch", i)}
		for j := range 5 {
			batch.Items = append(batch.Items, &pb.URLInfo{Url: fmt.Sprint("http://a.test/", i*3+j)})
		}
		if err := stream.Send(batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"[OK OK OK OK OK]", "[SKIPPED SKIPPED OK OK OK]", "[SKIPPED SKIPPED OK OK OK]"} {
		ack, err := stream.Recv()
		if err != nil || ack.GetID() != fmt.Sprint("batch", i) || fmt.Sprint(ack.GetStatuses()) != want {
			t.Errorf("batch %d: %v, %v, want %s", i, ack, err, want)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last batch: %v", err)
	}
}

// A call's header is in memory before its token is read, so a large one is refused.
func TestLargeHeader(t *testing.T) {
	c, _ := serve(t)
	for bytes, good := range map[int]bool{4 << 10: true, 2 * maxHeader: false} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", bytes))
		if _, err := c.ListCrawls(ctx, &pb.Local{}); (err == nil) != good {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}
