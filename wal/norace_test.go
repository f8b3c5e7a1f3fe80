//go:build !race

package wal

const stride = 1
