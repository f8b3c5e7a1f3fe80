// Package disk has what a directory of durable files needs from the operating system: files that are replaced as a
// whole and carry a checksum, and files that get lines at their end. It also has the lock of a directory, free space,
// and names that survive a loss of power.
//
// It does not know what the files hold. Damage is reported as a [*CorruptError], a form that is too new as a
// [*VersionError], a directory that another process uses as a [*LockedError].
package disk
