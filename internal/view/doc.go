// Package view shows a running crawl to people: on a terminal as a picture that is drawn again in place, elsewhere as a
// line each ten seconds.
//
// [Render] is the picture: a pure function of the crawl's state and the size of the screen, of any width and height.
// [Start] puts it on a terminal and keeps it up to date until [View.Stop], after which the terminal is as it was
// before, with whatever stood on it. [Lines] is the other form, through the log. [CanDraw] says which of the two a
// stream is for.
//
// The picture has the terminal's second screen for itself, so a change of size, which makes terminals fold the lines of
// the first one, cannot spoil it. It reads no keys: the terminal stays in its usual mode but for the echo, and Ctrl-C
// reaches the crawl as the signal it always is. Nothing else may be written to the terminal meanwhile; the log goes to
// a file.
package view
