package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// joinBooleans turns "--http2 false" into "--http2=false", for every boolean flag of the command that args call. The
// flag parser takes the value of a boolean flag only with an equals sign; without this step the word "false" would be a
// start URL.
func joinBooleans(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil {
		return args // cobra reports it
	}
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		flag := lastFlag(cmd, arg)
		switch {
		case flag == nil || i+1 == len(args):
		case flag.Value.Type() != "bool":
			i++
			out = append(out, arg, args[i])
			continue
		case isBoolean(args[i+1]):
			i++
			arg += "=" + args[i]
		}
		out = append(out, arg)
	}
	return out
}

// lastFlag is the flag that an argument ends with and whose value can be the next argument: --name, -n, or the last
// letter of -abn. It is nil for other arguments and for those that hold their value.
func lastFlag(cmd *cobra.Command, arg string) *pflag.Flag {
	find := func(fs *pflag.FlagSet, name string) *pflag.Flag { return fs.Lookup(name) }
	names := []string{arg}
	switch {
	case strings.Contains(arg, "=") || len(arg) < 2 || arg[0] != '-':
		return nil
	case strings.HasPrefix(arg, "--"):
		names[0] = arg[2:]
	default:
		names = strings.Split(arg[1:], "")
		find = func(fs *pflag.FlagSet, name string) *pflag.Flag { return fs.ShorthandLookup(name[:1]) }
	}
	var flag *pflag.Flag
	for i, name := range names {
		if flag = find(cmd.Flags(), name); flag == nil {
			return nil
		}
		if flag.Value.Type() != "bool" && i+1 < len(names) {
			return nil // the rest of the letters is its value
		}
	}
	return flag
}

// isBoolean reports whether a word is one of those that a boolean setting takes.
func isBoolean(word string) bool {
	switch strings.ToLower(word) {
	case "true", "false", "yes", "no", "on", "off", "t", "f", "1", "0":
		return true
	}
	return false
}
