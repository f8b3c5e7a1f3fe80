package parser

// pageSeeds are pages in small.
func pageSeeds() []string {
	return []string{
		"<base href=/x/><a href=y rel='NoFollow x'>t</a><a href=javascript:x>",
		"<meta name=robots content='noindex;nofollow'><meta http-equiv=refresh content='0;url=x'><meta " +
			"property=og:title content=x>",
		"<script type=application/ld+json>{\"@type\":[\"A\",\"\\u0042\"],\"url\":\"/x\",\"@graph\":[{\"@id\":\"https://e.com/\"}]}</script>",
		"<script id=__NEXT_DATA__>{\"href\":\"/a\",\"b\":[\"https://e.com/c\"]}</script>",
		"<img src=a alt=' b  c '><img srcset='a 1x, b 2x'><iframe src=c></iframe><frame src=d><area href=e>",
		"<link rel='canonical next' href=a><link rel=alternate hreflang=de href=b><h1>a <b>b</b></h1><title> c </title>",
	}
}

// tokenSeeds are tokens in their odder forms.
func tokenSeeds() []string {
	return []string{
		"<p>a<a href=b>c</a>",
		"<!-->a--><a href='x'>", "<!--->x<a>", "<!-- --!><b>", "<!--a--b-><i>", "<!----!><u>", "<!-- <!-- --><s>",
		"<!doctype html PUBLIC \"a>b\"><q>", "<![CDATA[<a>]]><b>", "<svg><![CDATA[<a>]]></svg><b>",
		"<?xml a=\">\"?><b>", "</ a><b>", "</><b>", "<!a><b>",
		"<script><!--<script></script>--></script><a>", "<script><!--</script><a>",
		"<script><!-- < <script> </script> --> </script><a>",
		"<script><!--><script></script><a>", "<script><!--<script>--></script><a>", "<SCRIPT>a</sCript ><a>",
		"<script></scriptx></script/><a>",
		"<style><a></style><b>", "<textarea><a></textarea foo=\">\"><b>", "<title>a&amp;b\x00\r\nc</title><b>",
		"<title>a</titl", "<title/>x</title>",
		"<xmp><a></xmp><b>", "<iframe><a></iframe><b>", "<noembed><a></noembed>", "<noframes><a></noframes>",
		"<plaintext><a></plaintext>", "<noscript><a></noscript>",
		"<a b=c d='e' f=\"g\" h i=>", "<a b c=d/><a/b><a /=x><a b= c><a ==x><a \x00=\x00>",
		"<a b=&not=x c=\"&notit; &not; &amp\" d=&#x41;&#0;&#128;>",
		"<a b='1' B=2 b>", "<a b='", "<a", "<", "</", "</a", "<!", "<!-", "<!--", "<a b=\"\r\n\r\">",
		"<svg><style><a></style><title><b></title><script><i></script></svg><style><u></style>",
		"<math><mi><style><a></style></mi><annotation-xml encoding=text/html><title><a></title>",
		"<svg><font color=x><title><a></title>", "<svg/><title><a></title>", "<svg><p><title><a></title>",
		"<svg><foreignObject><title><a></title></foreignObject><title><a></title>",
	}
}
