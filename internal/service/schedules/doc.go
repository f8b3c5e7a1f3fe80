// Package schedules starts crawls and recrawls at given times.
//
// Schedules are kept in the database. Run starts what is due until its context ends; the other methods may be called by
// any goroutine, whether or not Run is under way. Times are those of the system clock:
//
//   - What was missed while the process was down, or while the clock jumped, is started once.
//   - If the last crawl of the schedule has not ended, the run is skipped, with an event for the first of several.
//   - A run is started once, also if the process is killed between starting it and noting that.
//   - If the clock is set back by up to two hours, nothing runs a second time. If it is set back further, the schedule
//     is computed anew.
package schedules
