// Command urlload measures a URLFrontier server, ours or another: puts on one stream, puts in batches, and gets. It
// makes the same URLs each time, so that two servers can be compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/mapwright/mapwright/internal/urlfrontier/urlfrontierpb"
)

type load struct {
	client  pb.URLFrontierClient
	from    int
	urls    int
	queues  int
	batch   int
	streams int
	window  int
	perCall int
	each    int
	crawl   string

	last atomic.Int64 // when get got URLs, in nanoseconds since 1970
}

func main() {
	var l load
	address := flag.String("address", "127.0.0.1:7071", "of the server")
	mode := flag.String("mode", "put",
		"put: one URL per message; batch: PutDiscovered; get: GetURLs until none is left")
	flag.IntVar(&l.urls, "urls", 1_000_000, "URLs to put")
	flag.IntVar(&l.from, "from", 0, "number of the first URL")
	flag.IntVar(&l.queues, "queues", 10_000, "queues that they are in")
	flag.IntVar(&l.batch, "batch", 200, "URLs in a batch")
	flag.IntVar(&l.streams, "streams", 1, "streams, or calls at once")
	flag.IntVar(&l.window, "window", 10_000, "URLs of a stream that are not acknowledged yet, at most")
	flag.IntVar(&l.perCall, "queues-per-call", 100, "queues that one call of GetURLs asks")
	flag.IntVar(&l.each, "urls-per-queue", 100, "URLs that one call of GetURLs asks of each queue")
	flag.StringVar(&l.crawl, "crawl", "DEFAULT", "crawl id")
	flag.Parse()
	if err := l.run(*address, *mode); err != nil {
		fmt.Fprintln(os.Stderr, "urlload:", err)
		os.Exit(1)
	}
}

func (l *load) run(address, mode string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	l.client = pb.NewURLFrontierClient(conn)
	ctx := context.Background()
	one := map[string]func(context.Context, int) (int, error){"put": l.put, "batch": l.putBatches, "get": l.get}[mode]
	if one == nil {
		return fmt.Errorf("there is no mode %q", mode)
	}
	if mode == "get" {
		if _, err := l.client.SetDelay(ctx, &pb.QueueDelayParams{}); err != nil {
			return err
		}
	}
	var total atomic.Int64
	errs := make([]error, l.streams)
	var group sync.WaitGroup
	began := time.Now()
	for i := range l.streams {
		group.Go(func() {
			n, err := one(ctx, i)
			total.Add(int64(n))
			errs[i] = err
		})
	}
	group.Wait()
	took := time.Since(began)
	if mode == "get" && total.Load() > 0 { // without the wait for more at the end
		took = time.Duration(l.last.Load()) - time.Duration(began.UnixNano())
	}
	fmt.Printf("%s: %d URLs in %.2f s, %.0f per second\n", mode, total.Load(), took.Seconds(),
		float64(total.Load())/took.Seconds())
	return errors.Join(errs...)
}

// info makes URL number i.
func (l *load) info(i int) *pb.URLInfo {
	i += l.from
	host := fmt.Sprintf("host%d.example.com", i%l.queues)
	url := fmt.Sprintf("https://%s/section/%d/page-%d.html", host, i/l.queues%97, i)
	return &pb.URLInfo{Url: url, Key: host, CrawlID: l.crawl}
}

// put sends the URLs of one stream, and counts what is acknowledged as stored.
func (l *load) put(ctx context.Context, stream int) (int, error) {
	s, err := l.client.PutURLs(ctx)
	if err != nil {
		return 0, err
	}
	room := make(chan struct{}, l.window)
	sent := make(chan error, 1)
	go func() {
		for i := stream; i < l.urls; i += l.streams {
			room <- struct{}{}
			item := &pb.URLItem{ID: fmt.Sprint(i),
				Item: &pb.URLItem_Discovered{Discovered: &pb.DiscoveredURLItem{Info: l.info(i)}}}
			if err := s.Send(item); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	n := 0
	for {
		ack, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return n, <-sent
		}
		if err != nil {
			return n, err
		}
		if ack.GetStatus() == pb.AckMessage_OK {
			n++
		}
		<-room
	}
}

func (l *load) putBatches(ctx context.Context, stream int) (int, error) {
	s, err := l.client.PutDiscovered(ctx)
	if err != nil {
		return 0, err
	}
	room := make(chan struct{}, max(1, l.window/l.batch))
	sent := make(chan error, 1)
	go func() {
		for i := stream * l.batch; i < l.urls; i += l.streams * l.batch {
			room <- struct{}{}
			batch := &pb.DiscoveredBatch{ID: fmt.Sprint(i)}
			for j := i; j < min(i+l.batch, l.urls); j++ {
				batch.Items = append(batch.Items, l.info(j))
			}
			if err := s.Send(batch); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	n := 0
	for {
		ack, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return n, <-sent
		}
		if err != nil {
			return n, err
		}
		for _, status := range ack.GetStatuses() {
			if status == pb.AckMessage_OK {
				n++
			}
		}
		<-room
	}
}

// get takes URLs until calls give none for three seconds: a server may keep a queue back for a moment.
func (l *load) get(ctx context.Context, _ int) (int, error) {
	n := 0
	last := time.Now()
	for n < l.urls && time.Since(last) < 3*time.Second {
		s, err := l.client.GetURLs(ctx, &pb.GetParams{MaxQueues: uint32(l.perCall), MaxUrlsPerQueue: uint32(l.each),
			DelayRequestable: 3600, Item: &pb.GetParams_CrawlID{CrawlID: l.crawl}})
		if err != nil {
			return n, err
		}
		got := 0
		for {
			_, err := s.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return n, err
			}
			got++
		}
		if n += got; got > 0 {
			last = time.Now()
			l.last.Store(last.UnixNano())
		}
	}
	return n, nil
}
