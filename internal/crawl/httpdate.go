package crawl

import (
	"net/http"
	"strings"
	"time"
)

// httpDate reads a date of a header. Nearly all of them are written as in "Sun, 05 May 2024 19:41:29 GMT", which is read here; any others, bad
// ones among them, are net/http's to read, which tries one form after the other.
func httpDate(text string) (time.Time, error) {
	const form = "Mon, 02 Jan 2006 15:04:05 GMT"
	if len(text) != len(form) || text[3:5] != ", " || text[7] != ' ' || text[11] != ' ' || text[16] != ' ' || text[19] != ':' || text[22] != ':' || text[25:] != " GMT" {
		return http.ParseTime(text)
	}
	const months, days = "JanFebMarAprMayJunJulAugSepOctNovDec", "SunMonTueWedThuFriSat"
	month, weekday := strings.Index(months, text[8:11]), strings.Index(days, text[:3])
	day, century, year := twoDigits(text[5:]), twoDigits(text[12:]), twoDigits(text[14:])
	hour, minute, second := twoDigits(text[17:]), twoDigits(text[20:]), twoDigits(text[23:])
	// Days that not every month has are left to whoever knows the months.
	if month < 0 || month%3 != 0 || weekday < 0 || weekday%3 != 0 || day < 1 || day > 28 || century < 0 || year < 0 ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return http.ParseTime(text)
	}
	return time.Date(century*100+year, time.Month(month/3+1), day, hour, minute, second, 0, time.UTC), nil
}

// twoDigits is the number that text begins with, or -1.
func twoDigits(text string) int {
	tens, ones := text[0]-'0', text[1]-'0'
	if tens > 9 || ones > 9 {
		return -1
	}
	return int(tens)*10 + int(ones)
}
