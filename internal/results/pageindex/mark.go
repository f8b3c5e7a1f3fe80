package pageindex

import "github.com/mapwright/mapwright/internal/results/problems"

// Mark is which problems a page has.
type Mark = problems.Mark
