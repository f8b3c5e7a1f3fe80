package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// IsScheme reports whether an address with a scheme is one that Open reads, or refuses with the reason.
func IsScheme(scheme string) bool {
	first, _, _ := strings.Cut(strings.ToLower(scheme), "+") // such as redis+cluster
	return first == "redis" || first == "rediss" || first == "valkey" || first == "valkeys"
}

// WithReplicas adds to an address how many replicas must have a write before it is acknowledged.
func WithReplicas(text, replicas string) (string, error) {
	if n, err := strconv.Atoi(replicas); err != nil || n < 0 {
		return "", fmt.Errorf("%q is not a number of replicas: 0 or more", replicas)
	}
	sign := "?"
	if strings.Contains(text, "?") {
		sign = "&"
	}
	return text + sign + ReplicasOption + "=" + replicas, nil
}

// PasswordVariable is the variable of the environment that has the password, as for redis-cli.
const PasswordVariable = "REDISCLI_AUTH"

// An address is where a server is, and how it is to be used.
type address struct {
	hosts    []string // host:port of the server, of the sentinels, or of nodes of a Redis Cluster
	master   string   // the name of the server that the sentinels know; empty without them
	cluster  bool     // the hosts are nodes of a Redis Cluster
	user     string
	password string
	database int
	tls      *tls.Config // nil for none
	clear    bool        // asked for: no encryption on the way to other machines either
	replicas int         // so many must have a write before it is acknowledged
}

// errAddress is of an address that cannot be read. The address may hold a password, so the error does not quote it.
var errAddress = errors.New("the address of the cluster's server cannot be read: it must be like " +
	"redis://user@host:6379/0 or rediss://user@host:6379/0")

// parseAddress reads an address such as rediss://user:password@host:6379/0?wait_replicas=1.
func parseAddress(text string) (*address, error) {
	text, others := cutHosts(text)
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		return nil, errAddress
	}
	a := &address{user: u.User.Username()}
	a.password, _ = u.User.Password()
	kind, form, _ := strings.Cut(u.Scheme, "+")
	if form != "" && form != "sentinel" && form != "cluster" {
		kind = ""
	}
	switch kind {
	case "redis", "valkey":
	case "rediss", "valkeys":
		a.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return nil, fmt.Errorf("%s:// is not supported: --cluster takes a Redis server, such as "+
			"rediss://user@host:6379, sentinels, such as rediss+sentinel://user@host1,host2/name, or nodes of a "+
			"Redis Cluster, such as rediss+cluster://user@host1,host2", u.Scheme)
	}
	if err := a.setHosts(u, form, others); err != nil {
		return nil, err
	}
	if err := a.options(u.Query()); err != nil {
		return nil, err
	}
	if a.password == "" {
		a.password = os.Getenv(PasswordVariable)
	}
	if a.user != "" && a.password == "" {
		return nil, errors.New("the address of the cluster's server names a user and no password: it may be in the " +
			"address, in the variable " + PasswordVariable + ", or in a file (passfile=FILE in the address)")
	}
	return a, a.checkClear(u.Hostname())
}

// setHosts reads where the server is, or where sentinels or nodes are: the first host in the URL and the others.
func (a *address) setHosts(u *url.URL, form string, others []string) error {
	host, port := u.Hostname(), u.Port()
	path := strings.Trim(u.Path, "/")
	standard := "6379"
	switch {
	case form == "sentinel":
		standard = "26379"
		if a.master, path, _ = strings.Cut(path, "/"); a.master == "" {
			return errors.New("the address of the cluster's sentinels has no name of a server: it must be like " +
				"redis+sentinel://user@host1:26379,host2:26379/name")
		}
	case form == "cluster":
		a.cluster = true
	case len(others) > 0:
		return errors.New("the address of the cluster's server has several hosts: that is for " +
			"redis+sentinel:// and redis+cluster://")
	}
	if host == "" {
		return errAddress
	}
	if port == "" {
		port = standard
	}
	a.hosts = []string{net.JoinHostPort(host, port)}
	for _, other := range others {
		if _, _, err := net.SplitHostPort(other); err != nil {
			other = net.JoinHostPort(other, standard)
		}
		a.hosts = append(a.hosts, other)
	}
	if path != "" {
		var err error
		if a.database, err = strconv.Atoi(path); err != nil || a.database < 0 {
			return errors.New("the address of the cluster's server names a database that is not a number: " +
				"it must be like redis://host:6379/0")
		}
		if a.database > 0 && a.cluster {
			return errors.New("the address of the Redis Cluster names a database: a Redis Cluster has no other " +
				"than 0")
		}
	}
	return nil
}

// cutHosts takes the hosts beyond the first out of an address.
func cutHosts(text string) (string, []string) {
	scheme, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	from := strings.LastIndex(rest[:end], "@") + 1
	hosts := strings.Split(rest[from:end], ",")
	if len(hosts) == 1 {
		return text, nil
	}
	return scheme + "://" + rest[:from] + hosts[0] + rest[end:], hosts[1:]
}

// options reads what follows the question mark.
func (a *address) options(query url.Values) error {
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "tls":
			if value != "off" || a.tls != nil {
				return errors.New("tls=off in the address of the cluster's server is for redis://, and tls has no " +
					"other value: rediss:// encrypts")
			}
			a.clear = true
		case "cafile":
			if a.tls == nil {
				return errors.New("cafile in the address of the cluster's server is for rediss://")
			}
			text, err := os.ReadFile(value)
			if err != nil {
				return fmt.Errorf("cafile in the address of the cluster's server: %w", err)
			}
			if a.tls.RootCAs = x509.NewCertPool(); !a.tls.RootCAs.AppendCertsFromPEM(text) {
				return fmt.Errorf("cafile in the address of the cluster's server: %s has no certificate in PEM form",
					value)
			}
		case "passfile":
			text, err := os.ReadFile(value)
			if err != nil {
				return fmt.Errorf("passfile in the address of the cluster's server: %w", err)
			}
			first, _, _ := strings.Cut(string(text), "\n")
			a.password = strings.TrimSuffix(first, "\r")
		case ReplicasOption:
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return fmt.Errorf("%s in the address of the cluster's server must be a number, 0 or more",
					ReplicasOption)
			}
			a.replicas = n
		default:
			return fmt.Errorf("the address of the cluster's server has an option %q; it may have cafile, passfile, "+
				"tls=off and %s", name, ReplicasOption)
		}
	}
	return nil
}

// ReplicasOption is the part of an address that says how many replicas must have a write before it is acknowledged.
const ReplicasOption = "wait_replicas"

// checkClear refuses to send anything in clear to another machine, unless that was asked for: the password goes
// first.
func (a *address) checkClear(host string) error {
	if a.tls != nil || a.clear || isLocal(host) {
		return nil
	}
	return fmt.Errorf("redis:// would send the password and all data in clear to %s, which is another machine: use "+
		"rediss://, or add tls=off to the address if the network between the machines is safe", host)
}

// isLocal reports whether a host is this machine itself.
func isLocal(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	ip := net.ParseIP(host)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || ip != nil && ip.IsLoopback()
}
