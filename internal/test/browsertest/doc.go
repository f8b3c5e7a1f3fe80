// Package browsertest drives Chromium for tests of pages, with the build tag browser. Start a Browser, open Tabs in it
// with a size, a colour scheme and with or without scripts. When a test ends, a tab fails it if there was a console
// error, an exception, a violation of the Content-Security-Policy or a request to another place.
//
// The browser cannot reach any host but loopback. scripts/need-chromium.sh installs what is needed; make browser-test
// runs the tests that have the tag and a name with Browser.
package browsertest
