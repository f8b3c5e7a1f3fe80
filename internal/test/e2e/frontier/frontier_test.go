package frontier

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/mapwright/mapwright/internal/test/e2e"
	pb "github.com/mapwright/mapwright/internal/urlfrontier/urlfrontierpb"
)

// server is a running program and a client of it.
type server struct {
	*e2e.Process
	client pb.URLFrontierClient
}

// start runs the program on a free port, and connects to it.
func start(t *testing.T, dir string, flags ...string) server {
	t.Helper()
	return startOver(t, insecure.NewCredentials(), dir, flags...)
}

func startOver(t *testing.T, over credentials.TransportCredentials, dir string, flags ...string) server {
	t.Helper()
	p := e2e.Start(t, append([]string{"frontier", "--listen", "127.0.0.1:0", "--data-dir", dir}, flags...)...)
	address := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
	p.Until("it listens", func() bool { return address.MatchString(p.Out()) })
	conn, err := grpc.NewClient(address.FindStringSubmatch(p.Out())[1],
		grpc.WithTransportCredentials(over))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return server{p, pb.NewURLFrontierClient(conn)}
}

// hold is longer than the test.
const hold = 24 * 3600

// record is what clients know: URLs that they sent, that were acknowledged, and that they got.
type record struct {
	mu    sync.Mutex
	sent  map[string]bool
	acked map[string]bool
	got   map[string]int
}

func (r *record) acks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acked)
}

func discovered(key, url string) *pb.URLItem {
	return &pb.URLItem{ID: url, Item: &pb.URLItem_Discovered{Discovered: &pb.DiscoveredURLItem{Info: &pb.URLInfo{
		Url: url, Key: key, Metadata: map[string]*pb.StringList{"of": {Values: []string{url, "ü"}}}}}}}
}

// put sends URLs until the server is gone.
func (r *record) put(ctx context.Context, s server, client, round int) {
	stream, err := s.client.PutURLs(ctx)
	if err != nil {
		return
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			key := fmt.Sprintf("host%d", i%20)
			url := fmt.Sprintf("http://%s/%d/%d/%d", key, client, round, i/2) // every second one is known already
			r.mu.Lock()
			r.sent[url] = true
			r.mu.Unlock()
			if stream.Send(discovered(key, url)) != nil {
				return
			}
		}
	})
	for {
		ack, err := stream.Recv()
		if err != nil {
			break
		}
		if ack.GetStatus() != pb.AckMessage_FAIL {
			r.mu.Lock()
			r.acked[ack.GetID()] = true
			r.mu.Unlock()
		}
	}
	group.Wait()
}

// get takes URLs until the server is gone.
func (r *record) get(ctx context.Context, s server) {
	for {
		stream, err := s.client.GetURLs(ctx, &pb.GetParams{MaxQueues: 5, MaxUrlsPerQueue: 100_000,
			DelayRequestable: hold})
		if err != nil {
			return
		}
		for {
			info, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return
			}
			r.mu.Lock()
			r.got[info.GetUrl()]++
			r.mu.Unlock()
		}
	}
}

// TestKill: four clients put and get while the program is killed, three times. What was acknowledged is there once,
// with its metadata. A URL that a client got is not given again, and delays, blocks and the default delay hold.
func TestKill(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "frontier")
	r := &record{sent: map[string]bool{}, acked: map[string]bool{}, got: map[string]int{}}
	for round := range 3 {
		s := start(t, dir)
		if round == 0 {
			prepare(t, s)
		}
		r.check(t, s)
		var group sync.WaitGroup
		for client := range 4 {
			group.Go(func() { r.put(ctx, s, client, round) })
			group.Go(func() { r.get(ctx, s) })
		}
		before := r.acks()
		s.Until("1,500 puts were acknowledged", func() bool { return r.acks() >= before+1500 })
		s.Kill()
		group.Wait()
	}
	s := start(t, dir)
	r.check(t, s)
	if len(r.got) == 0 {
		t.Error("no URL was ever given")
	}
	s.Signal(syscall.SIGTERM)
	e2e.Succeeded(t, s.Wait())
}

// prepare makes a queue with a delay of a day that has given a URL, a queue that is blocked, and no default delay.
func prepare(t *testing.T, s server) {
	t.Helper()
	ctx := t.Context()
	stream, err := s.client.PutDiscovered(ctx)
	if err != nil {
		t.Fatal(err)
	}
	batch := &pb.DiscoveredBatch{ID: "first"}
	for _, key := range []string{"slow", "blocked"} {
		for i := range 3 {
			batch.Items = append(batch.Items, &pb.URLInfo{Url: fmt.Sprintf("http://%s/%d", key, i), CrawlID: "other"})
		}
	}
	batch.Items = append(batch.Items, batch.Items[0], &pb.URLInfo{Url: ""})
	if err := errors.Join(stream.Send(batch), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	ack, err := stream.Recv()
	if err != nil || ack.GetID() != "first" || fmt.Sprint(ack.GetStatuses()) != "[OK OK OK OK OK OK SKIPPED SKIPPED]" {
		t.Fatalf("acknowledged as %v: %v", ack, err)
	}
	_, err1 := s.client.SetDelay(ctx, &pb.QueueDelayParams{Key: "slow", CrawlID: "other", DelayRequestable: hold})
	_, err2 := s.client.SetDelay(ctx, &pb.QueueDelayParams{DelayRequestable: 0})
	_, err3 := s.client.BlockQueueUntil(ctx, &pb.BlockQueueParams{Key: "blocked", CrawlID: "other",
		Time: uint64(time.Now().Add(hold * time.Second).Unix())})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if got := take(t, s, "other", "slow"); got != 1 {
		t.Fatalf("the queue gave %d URLs, want 1", got)
	}
}

// take asks a queue for one URL more than a client has of it.
func take(t *testing.T, s server, crawl, key string) (n int) {
	t.Helper()
	stream, err := s.client.GetURLs(t.Context(), &pb.GetParams{Key: key, MaxUrlsPerQueue: 1, DelayRequestable: 1,
		Item: &pb.GetParams_CrawlID{CrawlID: crawl}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
}

// check compares what a server that has just begun holds with what clients know.
func (r *record) check(t *testing.T, s server) {
	t.Helper()
	ctx := t.Context()
	stream, err := s.client.ListURLs(ctx, &pb.ListUrlParams{Size: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		info := item.GetKnown().GetInfo()
		url := info.GetUrl()
		if there[url] || !r.sent[url] {
			t.Fatalf("%s is there twice, or nobody sent it", url)
		}
		if values := info.GetMetadata()["of"].GetValues(); len(values) != 2 || values[0] != url || values[1] != "ü" {
			t.Fatalf("%s has the metadata %v", url, info.GetMetadata())
		}
		there[url] = true
	}
	for url := range r.acked {
		if !there[url] {
			t.Fatalf("%s was acknowledged and is gone", url)
		}
	}
	for url, n := range r.got {
		if n > 1 || !there[url] {
			t.Fatalf("%s was given %d times; it is there: %v", url, n, there[url])
		}
	}
	stats, err := s.client.GetStats(ctx, &pb.QueueWithinCrawlParams{})
	if err != nil || int(stats.GetSize()) != len(there) || int(stats.GetInProcess()) < len(r.got) {
		t.Fatalf("stats are %v, with %d URLs of which %d were given: %v", stats, len(there), len(r.got), err)
	}
	for _, key := range []string{"slow", "blocked"} {
		if got := take(t, s, "other", key); got != 0 {
			t.Fatalf("the queue %s gave %d URLs before its time", key, got)
		}
	}
}

// certificate writes the certificate of net/http/httptest and its key, and returns what a client needs to trust it.
func certificate(t *testing.T, dir string) (cert, key string, over credentials.TransportCredentials) {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	secret, err := x509.MarshalPKCS8PrivateKey(web.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	e2e.Write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	e2e.Write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	pool := x509.NewCertPool()
	pool.AddCert(web.Certificate())
	return cert, key, credentials.NewClientTLSFromCert(pool, "")
}

// Over TLS, a token that was set must be sent with every call.
func TestToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := e2e.Write(t, filepath.Join(dir, "token"), "0123456789abcdef\n")
	cert, key, over := certificate(t, dir)
	urls := filepath.Join(dir, "frontier")
	s := startOver(t, over, urls, "--token-file", file, "--tls-cert", cert, "--tls-key", key)
	for token, want := range map[string]codes.Code{"": codes.Unauthenticated, "Bearer wrong": codes.Unauthenticated,
		"Bearer 0123456789abcdef": codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", token)
		_, err := s.client.GetActive(ctx, &pb.Local{})
		stream, streamErr := s.client.ListURLs(ctx, &pb.ListUrlParams{})
		if streamErr == nil {
			_, streamErr = stream.Recv()
		}
		if errors.Is(streamErr, io.EOF) {
			streamErr = nil
		}
		if status.Code(err) != want || status.Code(streamErr) != want {
			t.Errorf("with %q: %v and %v, want %v", token, err, streamErr, want)
		}
	}
	second := e2e.Run(t, "frontier", "--listen", "127.0.0.1:0", "--data-dir", urls)
	e2e.Refused(t, second, "is served by process", "one server per data directory")
	s.Signal(syscall.SIGINT)
	e2e.Succeeded(t, s.Wait())
}
