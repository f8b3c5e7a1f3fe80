package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func bufferedOn(data string) *bufio.Reader {
	in := bufio.NewReaderSize(strings.NewReader(data), readBuffer)
	_, _ = in.Peek(1)
	return in
}

// comparePlain holds readPlain against http.ReadResponse, and reports whether the
// answer was plain.
func comparePlain(t *testing.T, data string) bool {
	t.Helper()
	mine, theirs := bufferedOn(data), bufferedOn(data)
	got := readPlain(mine)
	if got == nil {
		if mine.Buffered() != theirs.Buffered() {
			t.Errorf("%q: read %d bytes of what is not plain", data, theirs.Buffered()-mine.Buffered())
		}
		return false
	}
	want, err := http.ReadResponse(theirs, nil)
	if err != nil {
		t.Errorf("%q: plain, but net/http says %v", data, err)
		return true
	}
	gotBody, gotErr := io.ReadAll(got.Body)
	wantBody, wantErr := io.ReadAll(want.Body)
	if !bytes.Equal(gotBody, wantBody) || gotErr != wantErr {
		t.Errorf("%q: body %q, %v; want %q, %v", data, gotBody, gotErr, wantBody, wantErr)
	}
	if (got.Body == http.NoBody) != (want.Body == http.NoBody) {
		t.Errorf("%q: body %T, want %T", data, got.Body, want.Body)
	}
	if mine.Buffered() != theirs.Buffered() {
		t.Errorf("%q: %d bytes are left, want %d", data, mine.Buffered(), theirs.Buffered())
	}
	got.Body, want.Body = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q: read as %+v, want %+v", data, got, want)
	}
	return true
}

func TestPlainAnswers(t *testing.T) {
	long := "Content-Length: " + strings.Repeat("0", 17) + "3\r\n"
	for _, tt := range []struct {
		name, answer string
		plain        bool
	}{
		{"usual", okHead + "Content-Type: text/html; charset=utf-8\r\nETag: \"x\"\r\nContent-Length: 3\r\n\r\nabc",
			true},
		{"kept", okHead + "Connection: Keep-Alive\r\nContent-Length: 3\r\n\r\nabc", true},
		{"nothing follows", okHead + "Content-Length: 0\r\n\r\n", true},
		{"more follows", okHead + "Content-Length: 1\r\n\r\nabc", true},
		{"cut", okHead + "Content-Length: 10\r\n\r\nabc", true},
		{"names in any case", okHead + "content-length: 1\r\nx-powered-BY: y\r\n\r\na", true},
		{"twice the same name", okHead + "Link: a\r\nLink: b\r\nContent-Length: 1\r\nlink: c\r\n\r\na", true},
		{"blanks around values", okHead + "Server:   a b  \r\nVary:\r\nContent-Length: 1 \r\n\r\na", true},
		{"an error", "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 1\r\n\r\na", true},
		{"no reason", "HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\na", true},
		{"many digits", okHead + long + "\r\nabc", true},

		{"too many digits", okHead + "Content-Length: 0000000000000000003\r\n\r\nabc", false},
		{"no length", okHead + "\r\nabc", false},
		{"two lengths", okHead + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", false},
		{"empty length", okHead + "Content-Length:\r\n\r\nabc", false},
		{"signed length", okHead + "Content-Length: +3\r\n\r\nabc", false},
		{"chunks", okHead + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
		{"chunks and a length", okHead + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", false},
		{"closing", okHead + "Connection: close\r\nContent-Length: 1\r\n\r\na", false},
		{"pragma", okHead + "Pragma: no-cache\r\nContent-Length: 1\r\n\r\na", false},
		{"older", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", false},
		{"nothing for a reason", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", false},
		{"blanks before the status", "HTTP/1.1  200 OK\r\nContent-Length: 1\r\n\r\na", false},
		{"informational", "HTTP/1.1 103 X\r\nContent-Length: 1\r\n\r\na", false},
		{"no content", "HTTP/1.1 204 X\r\nContent-Length: 1\r\n\r\na", false},
		{"not modified", "HTTP/1.1 304 X\r\nContent-Length: 1\r\n\r\n", false},
		{"folded", okHead + "A: b\r\n c\r\nContent-Length: 1\r\n\r\na", false},
		{"bare line feed", okHead + "A: b\nContent-Length: 1\r\n\r\na", false},
		{"bare carriage return", okHead + "A: b\rc\r\nContent-Length: 1\r\n\r\na", false},
		{"latin-1", okHead + "A: \xe9\r\nContent-Length: 1\r\n\r\na", false},
		{"NUL", okHead + "A: \x00\r\nContent-Length: 1\r\n\r\na", false},
		{"a blank in a name", okHead + "Content-Length : 1\r\n\r\na", false},
		{"no name", okHead + ": 1\r\nContent-Length: 1\r\n\r\na", false},
		{"no colon", okHead + "Hello\r\nContent-Length: 1\r\n\r\na", false},
		{"unfinished", okHead + "Content-Length: 1\r\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := comparePlain(t, tt.answer); got != tt.plain {
				t.Errorf("plain: %v, want %v", got, tt.plain)
			}
		})
	}
}

func FuzzPlain(f *testing.F) {
	f.Add(okHead + "Date: Sun, 15 Nov 2026 08:46:18 GMT\r\nContent-Type: text/html\r\nContent-Length: " +
		"3\r\nConnection: keep-alive\r\n\r\nabc")
	f.Add("HTTP/1.1 404 Not Found\r\nSet-Cookie: a=b\r\nset-cookie: c=d\r\nContent-Length: 0\r\n\r\n")
	f.Add(okHead + "Pragma: no-cache\r\nTrailer: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	f.Fuzz(func(t *testing.T, data string) {
		if len(data) <= readBuffer {
			comparePlain(t, data)
		}
	})
}
