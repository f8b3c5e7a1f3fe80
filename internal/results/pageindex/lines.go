package pageindex

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
)

// Quoted is a URL in the form that files of JSON lines have. Only a backslash is escaped there: quotes and control
// characters are not part of a canonical URL.
func Quoted(url string) []byte { return []byte(`"` + strings.ReplaceAll(url, `\`, `\\`) + `"`) }

// EachLine calls see with each line of a file that contains a text, without the line feed, until see returns false. The
// line is valid during the call. A file may have many gigabytes, so EachLine checks ctx after every megabyte.
func EachLine(ctx context.Context, path string, contains []byte, see func([]byte) bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	unchecked := lookEvery // bytes since ctx was looked at
	for in := bufio.NewReaderSize(f, 1<<20); ; {
		if unchecked >= lookEvery {
			if err := ctx.Err(); err != nil {
				return err
			}
			unchecked = 0
		}
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) { // a line of more than a megabyte
			whole := bytes.Clone(text)
			text, err = in.ReadBytes('\n')
			text = append(whole, text...)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		unchecked += len(text)
		if bytes.Contains(text, contains) && !see(bytes.TrimSuffix(text, []byte("\n"))) {
			return nil
		}
	}
}

const lookEvery = 1 << 20
