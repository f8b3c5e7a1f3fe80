package robots

import (
	"fmt"
	"strings"
	"testing"
)

// typicalFile is a shop's robots.txt: sixty rules, a third of them with
// wildcards, beside other crawlers' groups.
func typicalFile() string {
	var b strings.Builder
	b.WriteString("User-agent: OtherBot\nDisallow: /\n\nUser-agent: *\nCrawl-delay: 1\n")
	for i := range 40 {
		fmt.Fprintf(&b, "Disallow: /section%02d/private/\n", i)
	}
	for i := range 10 {
		fmt.Fprintf(&b, "Disallow: /*?filter%d=\n", i)
		fmt.Fprintf(&b, "Disallow: /catalog%d/*/compare$\n", i)
	}
	b.WriteString("Allow: /section01/private/press/\nSitemap: https://shop.example/sitemap.xml\n")
	return b.String()
}

// hostileFile fills the whole size limit with rules of one kind.
func hostileFile(rule func(i int) string) string {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for i := 0; b.Len() < MaxSize; i++ {
		b.WriteString(rule(i))
		b.WriteByte('\n')
	}
	return b.String()
}

func hostileFiles() map[string]string {
	return map[string]string{
		"plain":      hostileFile(func(i int) string { return fmt.Sprintf("Disallow:/a%d", i) }),
		"nested":     hostileFile(func(i int) string { return "Disallow:/" + strings.Repeat("a", i) }),
		"stars":      hostileFile(func(int) string { return "Disallow:/" + strings.Repeat("*a", 8000) + "b" }),
		"short_wild": hostileFile(func(i int) string { return fmt.Sprintf("Disallow:*%x", i) }),
		"disorder": hostileFile(func(i int) string {
			return fmt.Sprintf("Disallow:*baaaaaaa%s*b",
				strings.Repeat("a", i%8))
		}),
		"near_miss": hostileFile(func(i int) string { return fmt.Sprintf("Disallow:*aaaaaaa%x", i|1<<12) }),
	}
}

func BenchmarkMatch(b *testing.B) {
	r := Parse([]byte(typicalFile())).Agent("mapwright")
	for name, path := range map[string]string{
		"free":     "/products/garden/chairs/teak-folding-chair-4711.html",
		"query":    "/products/garden?page=4&sort=price&filter7=teak",
		"disallow": "/section17/private/report.html",
	} {
		b.Run("file=typical/path="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Match(path)
			}
		})
	}
}

func BenchmarkMatchHostile(b *testing.B) {
	path := "/" + strings.Repeat("a", 1000) + "b" + strings.Repeat("a", 1000)
	for name, file := range hostileFiles() {
		r := Parse([]byte(file)).Agent("mapwright")
		b.Run(fmt.Sprintf("file=%s/rules=%d", name, r.Len()), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Match(path)
			}
			b.ReportMetric(float64(r.Size()), "held-B")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	files := hostileFiles()
	files["typical"] = typicalFile()
	for name, file := range files {
		body := []byte(file)
		b.Run("file="+name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				Parse(body).Agent("mapwright")
			}
		})
	}
}
