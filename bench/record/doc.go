// Command record runs the benchmarks of whole crawls, keeps what they printed, and makes a page of results from all
// that was kept.
//
//	go run ./bench/record                # three runs of everything, about an hour on two cores
//	go run ./bench/record -render        # the page alone
//	go run ./bench/record -last          # the name of the newest raw file
//
// Raw outputs are bench/results/DATE-COMMIT.txt in Go's benchmark format, which benchstat reads too; what is recorded
// again on the same day at the same commit is appended, so that no run that was made can be left out. A line "run: N"
// begins each run. RESULTS.md is made by benchstat from the raw files, and from changes.md, which is written by
// hand: whatever it says can be checked against the raw files.
package main
