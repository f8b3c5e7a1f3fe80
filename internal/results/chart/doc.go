// Package chart draws charts as SVG inside HTML: bars, one stacked bar, a histogram and lines over time. Each chart is
// a value; its HTML method is a pure function of it. A chart has a title and a description for screen readers, and the
// same numbers as a table. It contains no script, no style attribute and no reference to another file. Colours are
// classes (see Tone), which the style sheet of package ui defines for dark and light. Labels may be any text: they are
// escaped.
//
// Widths are percentages, so that a chart fills its column at any width while its text keeps its size.
package chart
