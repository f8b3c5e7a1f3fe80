package parser

import (
	"reflect"
	"testing"
)

// FuzzTokens holds the scanner to x/net/html's tokenizer: the same start tags
// with the same attributes in the same order, and the same title.
func FuzzTokens(f *testing.F) {
	for _, s := range tokenSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if d := deviation(src); d != "" {
			return
		}
		got, want := tokens(src), oracle(src)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q\n got %v %s\nwant %v %s", src, got.tags, show(got.title), want.tags, show(want.title))
		}
	})
}

func show(s *string) string {
	if s == nil {
		return "no title"
	}
	return "title " + *s
}

func deviation(src []byte) string { return "" }

var tokenSeeds = []string{
	"<p>a<a href=b>c</a>",
	"<!-->a--><a href='x'>", "<!--->x<a>", "<!-- --!><b>", "<!--a--b-><i>", "<!----!><u>", "<!-- <!-- --><s>",
	"<!doctype html PUBLIC \"a>b\"><q>", "<![CDATA[<a>]]><b>", "<svg><![CDATA[<a>]]></svg><b>", "<?xml a=\">\"?><b>", "</ a><b>", "</><b>", "<!a><b>",
	"<script><!--<script></script>--></script><a>", "<script><!--</script><a>", "<script><!-- < <script> </script> --> </script><a>",
	"<script><!--><script></script><a>", "<script><!--<script>--></script><a>", "<SCRIPT>a</sCript ><a>", "<script></scriptx></script/><a>",
	"<style><a></style><b>", "<textarea><a></textarea foo=\">\"><b>", "<title>a&amp;b\x00\r\nc</title><b>", "<title>a</titl", "<title/>x</title>",
	"<xmp><a></xmp><b>", "<iframe><a></iframe><b>", "<noembed><a></noembed>", "<noframes><a></noframes>", "<plaintext><a></plaintext>", "<noscript><a></noscript>",
	"<a b=c d='e' f=\"g\" h i=>", "<a b c=d/><a/b><a /=x><a b= c><a ==x><a \x00=\x00>", "<a b=&not=x c=\"&notit; &not; &amp\" d=&#x41;&#0;&#128;>",
	"<a b='1' B=2 b>", "<a b='", "<a", "<", "</", "</a", "<!", "<!-", "<!--", "<a b=\"\r\n\r\">",
	"<svg><style><a></style><title><b></title><script><i></script></svg><style><u></style>", "<math><mi><style><a></style></mi><annotation-xml encoding=text/html><title><a></title>",
	"<svg><font color=x><title><a></title>", "<svg/><title><a></title>", "<svg><p><title><a></title>", "<svg><foreignObject><title><a></title></foreignObject><title><a></title>",
}
