// Package config holds every setting of a crawl under one name in three forms: the flag --max-workers, the environment
// variable MAPWRIGHT_MAX_WORKERS and the configuration-file key max_workers.
//
// [Settings.Table] lists each setting with its default. [Load] lays the layers over each other (default, profile, file,
// environment, flags), remembers which layer won, refuses all bad values at once, and applies the bounds of the safe
// profile, which no layer can exceed. [Resume] does the same over the settings that are stored with a crawl. The rest
// of the program sees only the resulting [Settings].
package config
