// Package urlfrontier serves the URLFrontier API of crawler-commons over gRPC, for crawlers in any language. The URLs
// are in package urlqueue. docs/urlfrontier.md says what differs from the reference implementation.
package urlfrontier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/mapwright/mapwright/internal/urlfrontier/urlfrontierpb"
	"github.com/mapwright/mapwright/internal/urlqueue"
)

// DefaultCrawl is the crawl of URLs that name none.
const DefaultCrawl = "DEFAULT"

var defaultCrawlBytes = []byte(DefaultCrawl)

const (
	defaultHold = 30 * time.Second // of URLs that GetURLs gives, as in the reference implementation
	defaultSize = 100              // results of a list
	acksWaiting = 8192             // puts of one stream that wait for the disk
	pingsEvery  = 10 * time.Second // clients may ask so often whether the connection stands
	maxHeader   = 16 << 10         // bytes of the header of a call, which is in memory before its token is read
)

// Options are the settings of a server.
type Options struct {
	Address string         // that ListNodes gives
	Token   string         // that clients must send as "authorization: Bearer TOKEN"; empty is none
	Level   *slog.LevelVar // that SetLogLevel sets
	Log     *slog.Logger
	GRPC    []grpc.ServerOption
}

// New returns a server for the queues of a store. The caller closes the store after the server has stopped.
func New(store *urlqueue.Store, o Options) *grpc.Server {
	s := &service{store: store, opts: o}
	server := grpc.NewServer(append(o.GRPC,
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsEvery, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))...)
	pb.RegisterURLFrontierServer(server, s)
	return server
}

type service struct {
	pb.UnimplementedURLFrontierServer
	store *urlqueue.Store
	opts  Options
}

func (s *service) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := s.allow(ctx); err != nil {
		return nil, err
	}
	answer, err := next(ctx, req)
	s.note(info.FullMethod, err)
	return answer, toStatus(err)
}

func (s *service) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	next grpc.StreamHandler) error {
	if err := s.allow(stream.Context()); err != nil {
		return err
	}
	err := next(srv, stream)
	s.note(info.FullMethod, err)
	return toStatus(err)
}

func (s *service) note(method string, err error) {
	if err != nil {
		s.opts.Log.Debug("call failed", "method", method, "error", err)
	} else {
		s.opts.Log.Debug("call", "method", method)
	}
}

// allow compares the token of a call.
func (s *service) allow(ctx context.Context) error {
	if s.opts.Token == "" {
		return nil
	}
	want := sha256.Sum256([]byte("Bearer " + s.opts.Token))
	for _, value := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		if got := sha256.Sum256([]byte(value)); subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "send the token of the server as 'authorization: Bearer TOKEN'")
}

// toStatus gives errors of the store the code of gRPC that clients act on.
func toStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, urlqueue.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, urlqueue.ErrClosed):
		return status.Error(codes.Unavailable, "the server is shutting down")
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Internal, err.Error())
}

// crawlOf is the crawl that a request means.
func crawlOf(id string) string {
	if strings.TrimSpace(id) == "" {
		return DefaultCrawl
	}
	return id
}

// hostOf is the key of a URL that came without one: its host in lower case, without user and port. It is empty if the
// URL has no host.
func hostOf(url []byte) []byte {
	host := url
	if _, rest, ok := bytes.Cut(host, []byte("://")); ok {
		host = rest
	}
	if i := bytes.IndexAny(host, "/?#&"); i >= 0 {
		host = host[:i]
	}
	if i := bytes.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	if end := bytes.IndexByte(host, ']'); len(host) > 0 && host[0] == '[' && end > 0 {
		host = host[:end+1]
	} else if i := bytes.IndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	return bytes.ToLower(host)
}

// ack is an answer that waits until what it acknowledges is on disk.
type ack struct {
	message message
	ticket  urlqueue.Ticket
}

// acknowledge sends the answers of a stream of puts while receive takes in more. receive calls its argument for each
// answer, and ends with an error or with io.EOF at the end of the stream.
func (s *service) acknowledge(stream grpc.ServerStream, receive func(send func(ack) bool) error) error {
	acks := make(chan ack, acksWaiting)
	sent := make(chan error, 1)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for a := range acks {
			err := s.store.Wait(a.ticket)
			if err == nil {
				err = stream.SendMsg(a.message)
			}
			if err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	err := receive(func(a ack) bool {
		select {
		case acks <- a:
			return true
		case <-stopped:
			return false
		}
	})
	close(acks)
	if sendErr := <-sent; sendErr != nil {
		return sendErr
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s *service) PutURLs(stream grpc.BidiStreamingServer[pb.URLItem, pb.AckMessage]) error {
	return s.acknowledge(stream, func(send func(ack) bool) error {
		var (
			in     message
			memory slab
			items  = make([]urlqueue.Item, 1)
			result = make([]urlqueue.Status, 1)
		)
		for {
			if err := stream.RecvMsg(&in); err != nil {
				return err
			}
			id, err := readItem(in, &items[0])
			if err != nil {
				return status.Error(codes.InvalidArgument, err.Error())
			}
			ticket, err := s.store.Put(items, result)
			if err != nil {
				return err
			}
			if !send(ack{appendAck(memory.next(len(id)+8), id, result[0]), ticket}) {
				return io.EOF
			}
		}
	})
}

func (s *service) PutDiscovered(stream grpc.BidiStreamingServer[pb.DiscoveredBatch, pb.BatchAck]) error {
	return s.acknowledge(stream, func(send func(ack) bool) error {
		var (
			in     message
			items  []urlqueue.Item
			result []urlqueue.Status
		)
		for {
			err := stream.RecvMsg(&in)
			if err != nil {
				return err
			}
			var id []byte
			if id, items, err = readBatch(in, items[:0]); err != nil {
				return status.Error(codes.InvalidArgument, err.Error())
			}
			result = append(result[:0], make([]urlqueue.Status, len(items))...)
			ticket, err := s.store.Put(items, result)
			if err != nil {
				return err
			}
			if !send(ack{appendBatchAck(make([]byte, 0, len(id)+len(result)+16), id, result), ticket}) {
				return io.EOF
			}
		}
	})
}

// atMost is a limit of a request: zero means none.
func atMost(n uint32) int {
	if n == 0 {
		return math.MaxInt
	}
	return int(n)
}

func (s *service) GetURLs(req *pb.GetParams, stream grpc.ServerStreamingServer[pb.URLInfo]) error {
	w := urlqueue.Wanted{Key: req.GetKey(), MaxQueues: atMost(req.GetMaxQueues()),
		MaxURLs: atMost(req.GetMaxUrlsPerQueue()), Hold: time.Duration(req.GetDelayRequestable()) * time.Second}
	if w.Hold == 0 {
		w.Hold = defaultHold
	}
	if id, ok := req.GetItem().(*pb.GetParams_CrawlID); ok {
		w.Crawl = crawlOf(id.CrawlID)
	} else {
		w.AnyCrawl = true
	}
	if w.Key != "" && w.AnyCrawl {
		return status.Error(codes.InvalidArgument, "a key is within a crawl: set crawlID, such as DEFAULT")
	}
	var memory slab
	return s.store.Take(w, func(u urlqueue.URL) error {
		return stream.SendMsg(message(appendInfo(memory.next(infoSize(&u)), &u)))
	})
}

func (s *service) GetStats(_ context.Context, req *pb.QueueWithinCrawlParams) (*pb.Stats, error) {
	crawl := crawlOf(req.GetCrawlID())
	sum := s.store.Stats(crawl, req.GetKey())
	return &pb.Stats{Size: uint64(sum.Active), InProcess: uint32(sum.InProcess), NumberOfQueues: uint64(sum.Queues),
		CrawlID: crawl, Counts: map[string]uint64{
			"completed": uint64(sum.Done), "active_queues": uint64(sum.ActiveQueues)}}, nil
}

func (s *service) GetURLStatus(_ context.Context, req *pb.URLStatusRequest) (*pb.URLItem, error) {
	key := req.GetKey()
	if key == "" {
		key = string(hostOf([]byte(req.GetUrl())))
	}
	if key == "" {
		return nil, status.Error(codes.InvalidArgument, "the URL has no host: set key")
	}
	item := new(pb.URLItem)
	return item, s.store.Find(crawlOf(req.GetCrawlID()), key, []byte(req.GetUrl()), func(u urlqueue.URL) error {
		return proto.Unmarshal(appendItem(nil, &u), item)
	})
}

// filter returns a function that says whether a URL has the text that a request asks for.
func filter(text string, ignoreCase bool) func(url []byte) bool {
	switch {
	case strings.TrimSpace(text) == "":
		return func([]byte) bool { return true }
	case ignoreCase:
		lower := bytes.ToLower([]byte(text))
		return func(url []byte) bool { return bytes.Contains(bytes.ToLower(url), lower) }
	}
	return func(url []byte) bool { return bytes.Contains(url, []byte(text)) }
}

func (s *service) ListURLs(req *pb.ListUrlParams, stream grpc.ServerStreamingServer[pb.URLItem]) error {
	size, skip := int64(req.GetSize()), int64(req.GetStart())
	if size == 0 {
		size = defaultSize
	}
	match := filter(req.GetFilter(), req.GetIgnoreCase())
	var memory slab
	err := s.store.List(crawlOf(req.GetCrawlID()), req.GetKey(), func(u urlqueue.URL) error {
		switch {
		case !match(u.Text):
			return nil
		case skip > 0:
			skip--
			return nil
		case size == 0:
			return io.EOF
		}
		size--
		return stream.SendMsg(message(appendItem(memory.next(infoSize(&u)+64), &u)))
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s *service) CountURLs(_ context.Context, req *pb.CountUrlParams) (*pb.Long, error) {
	crawl := crawlOf(req.GetCrawlID())
	if strings.TrimSpace(req.GetFilter()) == "" {
		return &pb.Long{Value: uint64(s.store.Count(crawl, req.GetKey()))}, nil
	}
	match := filter(req.GetFilter(), req.GetIgnoreCase())
	var n uint64
	err := s.store.List(crawl, req.GetKey(), func(u urlqueue.URL) error {
		if match(u.Text) {
			n++
		}
		return nil
	})
	return &pb.Long{Value: n}, err
}

func (s *service) PurgeURLs(_ context.Context, req *pb.PurgeUrlParams) (*pb.Long, error) {
	before := time.Now().AddDate(0, 0, -int(min(req.GetDays(), math.MaxInt32)))
	n, err := s.store.Purge(crawlOf(req.GetCrawlID()), req.GetKey(), before)
	return &pb.Long{Value: uint64(n)}, err
}

func (s *service) ListQueues(_ context.Context, req *pb.Pagination) (*pb.QueueList, error) {
	crawl, size := crawlOf(req.GetCrawlID()), int(req.GetSize())
	if size == 0 {
		size = defaultSize
	}
	keys := s.store.Queues(crawl, int(req.GetStart()), size, req.GetIncludeInactive())
	return &pb.QueueList{Values: keys, Start: req.GetStart(), Size: uint32(len(keys)), CrawlID: crawl}, nil
}

func (s *service) ListCrawls(context.Context, *pb.Local) (*pb.StringList, error) {
	return &pb.StringList{Values: s.store.Crawls()}, nil
}

func (s *service) DeleteQueue(_ context.Context, req *pb.QueueWithinCrawlParams) (*pb.Long, error) {
	n, err := s.store.DeleteQueue(crawlOf(req.GetCrawlID()), req.GetKey())
	return &pb.Long{Value: uint64(n)}, err
}

func (s *service) DeleteCrawl(_ context.Context, req *pb.DeleteCrawlMessage) (*pb.Long, error) {
	n, err := s.store.DeleteCrawl(crawlOf(req.GetValue()))
	return &pb.Long{Value: uint64(n)}, err
}

// ifThere makes no error of a queue that does not exist, as the reference implementation.
func ifThere(err error) error {
	if errors.Is(err, urlqueue.ErrNotFound) {
		return nil
	}
	return err
}

func (s *service) BlockQueueUntil(_ context.Context, req *pb.BlockQueueParams) (*pb.Empty, error) {
	return &pb.Empty{}, ifThere(s.store.Block(crawlOf(req.GetCrawlID()), req.GetKey(), req.GetTime()))
}

func (s *service) SetDelay(_ context.Context, req *pb.QueueDelayParams) (*pb.Empty, error) {
	if req.GetKey() == "" {
		return &pb.Empty{}, s.store.SetDefaultDelay(req.GetDelayRequestable())
	}
	return &pb.Empty{}, ifThere(s.store.SetDelay(crawlOf(req.GetCrawlID()), req.GetKey(), req.GetDelayRequestable()))
}

func (s *service) SetCrawlLimit(_ context.Context, req *pb.CrawlLimitParams) (*pb.Empty, error) {
	return &pb.Empty{}, s.store.SetLimit(crawlOf(req.GetCrawlID()), req.GetKey(), req.GetLimit())
}

func (s *service) SetActive(_ context.Context, req *pb.Active) (*pb.Empty, error) {
	return &pb.Empty{}, s.store.SetActive(req.GetState())
}

func (s *service) GetActive(context.Context, *pb.Local) (*pb.Boolean, error) {
	return &pb.Boolean{State: s.store.Active()}, nil
}

func (s *service) SetLogLevel(_ context.Context, req *pb.LogLevelParams) (*pb.Empty, error) {
	levels := map[pb.LogLevelParams_Level]slog.Level{pb.LogLevelParams_TRACE: slog.LevelDebug,
		pb.LogLevelParams_DEBUG: slog.LevelDebug, pb.LogLevelParams_INFO: slog.LevelInfo,
		pb.LogLevelParams_WARN: slog.LevelWarn, pb.LogLevelParams_ERROR: slog.LevelError}
	level, ok := levels[req.GetLevel()]
	if !ok {
		return nil, status.Error(codes.InvalidArgument, "there is no such level")
	}
	s.opts.Level.Set(level)
	return &pb.Empty{}, nil
}

func (s *service) ListNodes(context.Context, *pb.Empty) (*pb.StringList, error) {
	return &pb.StringList{Values: []string{s.opts.Address}}, nil
}
