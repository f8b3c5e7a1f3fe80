// Package config holds every setting of a crawl under one name in three forms: the flag --max-workers, the environment
// variable MAPWRIGHT_MAX_WORKERS and the configuration-file key max_workers.
//
// A setting's life: [Table] lists it with its default; [Load] lays the layers over each other (default, profile, file,
// environment, a stored crawl's settings, flags), remembers which layer won, and refuses all bad values at once;
// [Settings.ClampSafe] then applies the hard caps of the safe profile, which no layer can raise. The rest of the program sees
// only the resulting [Settings].
package config
