//go:build ignore

// This program makes suffixes.txt from a public_suffix_list.dat of https://github.com/publicsuffix/list:
//
//	go run suffixes_gen.go -date 2026-02-06 -revision d6c92f1bbb7433e5db7b8405c25d4035fb8ff376 \
//		<public_suffix_list.dat >suffixes.txt
//
// A newer list gives some hosts another partition, so it changes Identity: crawls that were begun before cannot be
// resumed by a program that has it. Take one only for a reason, and say so in the changelog.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"golang.org/x/net/idna"
)

func main() {
	log.SetFlags(0)
	date := flag.String("date", "", "day of the revision in UTC, such as 2026-02-06")
	revision := flag.String("revision", "", "commit of the list")
	flag.Parse()
	if _, err := time.Parse(time.DateOnly, *date); err != nil || len(*revision) != 40 {
		log.Fatal("-date and -revision of the list are needed")
	}
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, `// %s
// The line above is the date of the list and is part of Identity. Made by suffixes_gen.go; do not edit.
// The rules of the Public Suffix List, https://publicsuffix.org/list/, revision
// %s,
// without its comments and with ASCII names only. This Source Code Form is subject to the terms of the Mozilla Public
// License, v. 2.0. If a copy of the MPL was not distributed with this file, You can obtain one at
// https://mozilla.org/MPL/2.0/.
`, *date, *revision)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		rule, _, _ := strings.Cut(in.Text(), " ") // the list's format ends a rule at a space
		if rule == "" || strings.HasPrefix(rule, "//") {
			continue
		}
		ascii, err := asciiRule(rule)
		if err != nil {
			log.Fatalf("rule %q: %v", rule, err)
		}
		fmt.Fprintln(out, ascii)
	}
	if err := in.Err(); err != nil {
		log.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// asciiRule converts the name in a rule, which may begin with "!" or "*.".
func asciiRule(rule string) (string, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(rule, "!"), "*.")
	if strings.ContainsAny(name, "*!") {
		return "", fmt.Errorf("a wildcard that is not the first label is not supported")
	}
	ascii, err := idna.Lookup.ToASCII(name)
	return rule[:len(rule)-len(name)] + ascii, err
}
