package parser

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

func BenchmarkText(b *testing.B) {
	for _, numbers := range []bool{false, true} {
		b.Run(fmt.Sprintf("numbers=%v", numbers), func(b *testing.B) {
			body := pageBodyN(b, pageShape{"testweb", 10 << 10, 30}, numbers)
			u := canonical(b, "http://h0.test/")
			// Text between tags; elements of the head are of no interest.
			body = body[bytes.Index(body, []byte("<body")):]
			var starts []int
			size := 0
			for i := 0; i < len(body); {
				n := bytes.IndexByte(body[i:], '<')
				if n < 0 {
					break
				}
				size += n
				n += bytes.IndexByte(body[i+n:], '>') + 1
				starts = append(starts, i)
				i += n
			}
			w := &walker{}
			b.SetBytes(int64(size))
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				w.texts.begin(u, false)
				for _, start := range starts {
					w.texts.scan(body, start)
				}
				w.texts.text()
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(len(starts)), "pieces")
			b.ReportMetric(float64(w.texts.words), "words")
			b.ReportMetric(float64(best.Nanoseconds())/float64(size), "ns/byte")
		})
	}
}
