package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/db"
	"github.com/mapwright/mapwright/internal/service/serve"
)

// keys are the commands below 'mapwright keys'. They work on the database of a server, whether or not it runs.
type keys struct {
	io stdio
}

func newKeys(environ []string, io stdio) *cobra.Command {
	k := &keys{io: io}
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke keys of a server's data directory, and make login links",
		Long: "Make, list and revoke keys of a server's data directory, and make login links. The server need not " +
			"run; if it does, the changes count at once.",
		Args: oneOfTheCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(k.create(environ), k.list(environ), k.revoke(environ), k.login(environ))
	return cmd
}

// operator is the caller of these commands: whatever can write the data directory may do everything.
func operator() *service.Caller {
	return &service.Caller{System: "operator", Scopes: []service.Scope{service.ScopeAdmin}}
}

// with opens the database, which is made if make is true.
func (k *keys) with(ctx context.Context, dir *dataDir, make bool, do func(*service.Service) error) error {
	name, err := dir.dir(&settingFlags{environ: dir.environ})
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(string(name), db.Name)); err != nil && !make {
		return refusal(fmt.Errorf("data directory %s has no database of a server: 'mapwright serve' or 'mapwright "+
			"keys create' makes one", name))
	}
	svc, err := service.Open(ctx, service.Options{Dir: string(name), RecordsOnly: true, Version: version})
	if err != nil {
		return &exitError{exitFailed, err}
	}
	err = do(svc)
	if e, ok := errors.AsType[*service.Error](err); ok {
		err = refusal(e)
	}
	return errors.Join(err, svc.Close())
}

func (k *keys) create(environ []string) *cobra.Command {
	var (
		in     service.Key
		scopes []string
		expire ageFlag
		asJSON bool
		dir    *dataDir
	)
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a key and print it; only its hash is stored",
		Example: `  mapwright keys create --scope admin --data-dir ./crawls
  mapwright keys create --account "shop team" --scope read --expires 90d`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range scopes {
				in.Scopes = append(in.Scopes, service.Scope(s))
			}
			if expire > 0 {
				in.ExpiresAt = page.Time{Time: time.Now().Add(time.Duration(expire))}
			}
			return k.with(cmd.Context(), dir, true, func(svc *service.Service) error {
				key, err := svc.Accounts.CreateKey(cmd.Context(), operator(), in)
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(k.io.out).Encode(key)
				}
				_, err = fmt.Fprintln(k.io.out, key.Secret)
				return err
			})
		},
	}
	dir = addDataDir(cmd, environ)
	cmd.Flags().StringSliceVar(&scopes, "scope", []string{"read", "write"},
		"what the key may do: read, write or admin (repeatable)")
	cmd.Flags().StringVar(&in.Name, "name", "", "`name` of the key, to tell it from others")
	cmd.Flags().StringVar(&in.Account, "account", "",
		"`id` or name of its account (default: the account that exists from the start)")
	cmd.Flags().Var(&expire, "expires", "`time` after which the key ends, such as 90d (0 is never)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	complete(cmd, "scope", []string{"read", "write", "admin"})
	return cmd
}

func (k *keys) list(environ []string) *cobra.Command {
	var (
		asJSON bool
		dir    *dataDir
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.with(cmd.Context(), dir, false, func(svc *service.Service) error {
				all, err := svc.Accounts.Keys(cmd.Context(), "")
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(k.io.out).Encode(all)
				}
				accounts, err := svc.Accounts.List(cmd.Context())
				if err != nil {
					return err
				}
				names := map[string]string{}
				for _, a := range accounts {
					names[a.ID] = a.Name
				}
				w := newTable(k.io.out)
				fmt.Fprintln(w, "ID\tACCOUNT\tSCOPES\tCREATED\tLAST USED\tSTATE\tNAME")
				for _, key := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
						key.ID, names[key.Account], service.Join(key.Scopes, ","), minute(key.CreatedAt),
						minute(key.LastUsedAt), key.State(), key.Name)
				}
				return w.Flush()
			})
		},
	}
	dir = addDataDir(cmd, environ)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// minute is a time in a list.
func minute(t page.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04")
}

func (k *keys) revoke(environ []string) *cobra.Command {
	var dir *dataDir
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "End keys at once; crawls, schedules and usage of their accounts stay",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return k.with(cmd.Context(), dir, false, func(svc *service.Service) error {
				for _, id := range args {
					if err := svc.Accounts.RevokeKey(cmd.Context(), operator(), "", id); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	dir = addDataDir(cmd, environ)
	return cmd
}

func (k *keys) login(environ []string) *cobra.Command {
	var (
		dir     *dataDir
		address string
	)
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Print a link that logs a person in once, as 'mapwright serve' does at its first start",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.with(cmd.Context(), dir, false, func(svc *service.Service) error {
				token, err := service.NewSessions(svc).NewLogin(cmd.Context())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(k.io.out, serve.LoginLink(address, token))
				return err
			})
		},
	}
	dir = addDataDir(cmd, environ)
	cmd.Flags().StringVar(&address, "server", defaultServer, "`URL` under which people reach the server")
	return cmd
}
