package bench

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"sync"
)

// bareWorkers is what a bare loop does best with on two cores.
const bareWorkers = 16

// Bare fetches every URL of a file and throws the bodies away: what net/http itself can do, and so an upper limit.
func Bare(addr, urls string) error {
	file, err := os.Open(urls)
	if err != nil {
		return err
	}
	defer file.Close()
	client := newClient(addr, bareWorkers)
	jobs := make(chan string, 1024)
	var workers sync.WaitGroup
	for range bareWorkers {
		workers.Go(func() {
			for u := range jobs {
				resp, err := client.Get(u)
				if err != nil {
					continue // the statistics will show that it is missing
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		jobs <- lines.Text()
	}
	close(jobs)
	workers.Wait()
	return lines.Err()
}

// newClient leads every name to one address. Its pool of idle connections is bounded, so that a crawl of very many
// hosts can end.
func newClient(addr string, perHost int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: dialTo(addr), MaxIdleConns: 1000, MaxIdleConnsPerHost: perHost, DisableCompression: true,
	}}
}
