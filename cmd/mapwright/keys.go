package main

import (
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

func newKeys(root *command) *cobra.Command {
	// These commands work on the database of a server, whether or not the server runs.
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke keys of a server's data directory, and make login links",
		Long: "Make, list and revoke keys of a server's data directory, and make login links. The server need not " +
			"run; if it does, the changes count at once.",
		Args: oneOfTheCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(createKey(root), listKeys(root), revokeKeys(root), newLogin(root))
	return cmd
}

// operator is the caller of these commands: a user who can write the data directory may do everything.
func operator() *service.Caller {
	return &service.Caller{System: "operator", Scopes: []service.Scope{service.ScopeAdmin}}
}

// onService gives a command its body, which calls do with the service of the data directory. The directory may be an
// argument.
func (c *command) onService(make bool, do func(*service.Service) error) *cobra.Command {
	c.addDataDir()
	return c.does(func(args []string) error { return c.withService(args, make, do) })
}

// withService calls do with the service of the data directory. If the directory has no database, it creates one if make
// is true, and refuses the command otherwise.
func (c *command) withService(directory []string, make bool, do func(*service.Service) error) error {
	name, err := c.existing(directory)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(string(name), db.Name)); err != nil && !make {
		return refusal(fmt.Errorf("data directory %s has no database of a server: 'mapwright serve' or 'mapwright "+
			"keys create' makes one", name))
	}
	svc, err := service.Open(c.Context(), service.Options{Dir: string(name), RecordsOnly: true, Version: version})
	if err != nil {
		return &exitError{exitFailed, err}
	}
	err = do(svc)
	if e, ok := errors.AsType[*service.Error](err); ok {
		err = refusal(e)
	}
	return errors.Join(err, svc.Close())
}

func createKey(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "create [directory]",
		Short: "Make a key and print it; only its hash is stored",
		Example: `  mapwright keys create --scope admin --data-dir ./crawls
  mapwright keys create --account "shop team" --scope read --expires 90d`,
		Args: oneDirectory,
	})
	var in service.Key
	var expire ageFlag
	scopes := c.Flags().StringSlice("scope", []string{"read", "write"},
		"what the key may do: read, write or admin (repeatable)")
	c.Flags().StringVar(&in.Name, "name", "", "`name` of the key, to tell it from others")
	c.Flags().StringVar(&in.Account, "account", "",
		"`id` or name of its account (default: the account that exists from the start)")
	c.Flags().Var(&expire, "expires", "`time` after which the key ends, such as 90d (0 is never)")
	c.addJSON("print JSON")
	complete(c.Command, "scope", []string{"read", "write", "admin"})
	return c.onService(true, func(svc *service.Service) error {
		for _, s := range *scopes {
			in.Scopes = append(in.Scopes, service.Scope(s))
		}
		if expire > 0 {
			in.ExpiresAt = page.Time{Time: time.Now().Add(time.Duration(expire))}
		}
		key, err := svc.Accounts.CreateKey(c.Context(), operator(), in)
		if err != nil {
			return err
		}
		if c.asJSON {
			return json.NewEncoder(c.out).Encode(key)
		}
		_, err = fmt.Fprintln(c.out, key.Secret)
		return err
	})
}

func listKeys(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{Use: "list [directory]", Short: "List keys", Args: oneDirectory})
	c.addJSON("print JSON")
	return c.onService(false, func(svc *service.Service) error {
		all, err := svc.Accounts.Keys(c.Context(), "")
		if err != nil {
			return err
		}
		if c.asJSON {
			return json.NewEncoder(c.out).Encode(all)
		}
		accounts, err := svc.Accounts.List(c.Context())
		if err != nil {
			return err
		}
		names := map[string]string{}
		for _, a := range accounts {
			names[a.ID] = a.Name
		}
		w := newTable(c.out)
		fmt.Fprintln(w, "ID\tACCOUNT\tSCOPES\tCREATED\tLAST USED\tSTATE\tNAME")
		for _, key := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
				key.ID, names[key.Account], service.Join(key.Scopes, ","), minute(key.CreatedAt),
				minute(key.LastUsedAt), key.State(), key.Name)
		}
		return w.Flush()
	})
}

// minute formats a time for a list.
func minute(t page.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04")
}

func revokeKeys(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "revoke ID...",
		Short: "End keys at once; crawls, schedules and usage of their accounts stay",
		Args:  cobra.MinimumNArgs(1),
	})
	c.addDataDir()
	return c.does(func(ids []string) error {
		return c.withService(nil, false, func(svc *service.Service) error {
			for _, id := range ids {
				if err := svc.Accounts.RevokeKey(c.Context(), operator(), "", id); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func newLogin(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "login [directory]",
		Short: "Print a link that logs a person in once, as 'mapwright serve' does at its first start",
		Args:  oneDirectory,
	})
	address := c.Flags().String("server", defaultServer, "`URL` under which people reach the server")
	return c.onService(false, func(svc *service.Service) error {
		token, err := svc.Accounts.NewLogin(c.Context())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.out, serve.LoginLink(*address, token))
		return err
	})
}
