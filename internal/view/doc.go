// Package view shows a running crawl to people: on a terminal as a picture that is drawn again in place, elsewhere as a
// line each ten seconds.
//
// [Render] is the picture: a pure function of the crawl's state and the size of the screen, of any width and height.
// [Start] puts it on a terminal and keeps it up to date until [View.Stop], after which the terminal shows what it
// showed before. [Lines] is the other form, through the log. [CanDraw] says which of the two a stream is for.
//
// The picture is on the terminal's second screen. Terminals fold the lines of the first screen when their size changes,
// and would destroy the picture there. The view reads no keys: the terminal stays in its usual mode except for the
// echo, and Ctrl-C still sends a signal to the crawl. Nothing else may be written to the terminal meanwhile; the log
// goes to a file.
package view
