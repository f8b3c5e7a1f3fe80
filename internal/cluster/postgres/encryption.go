package postgres

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// sslmodeKey finds an sslmode in either form of an address, and ssl=true, which is
// another spelling of sslmode=require.
var sslmodeKey = regexp.MustCompile(`(^|[?&\s])ssl(mode)?\s*=`)

// demandTLS lets connections leave this machine only encrypted, to a server whose
// certificate is valid for its name (verify-full), unless the address or PGSSLMODE says
// an sslmode. The default of libpq and pgx is "prefer": anybody between the machines can
// answer that there is no TLS, ask for the password and get it. An sslmode of a service
// file counts too if it is not "prefer" or "allow", which pgx does not tell from the
// default.
func demandTLS(address string, config *pgconn.Config) {
	if os.Getenv("PGSSLMODE") != "" || sslmodeKey.MatchString(address) {
		return
	}
	all := append([]*pgconn.FallbackConfig{
		{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig},
	}, config.Fallbacks...)
	var kept []*pgconn.FallbackConfig
	for _, c := range all {
		same := func(other *pgconn.FallbackConfig) bool { return other.Host == c.Host && other.Port == c.Port }
		encrypts := slices.ContainsFunc(all, func(o *pgconn.FallbackConfig) bool {
			return same(o) &&
				o.TLSConfig != nil
		})
		plain := slices.ContainsFunc(all, func(o *pgconn.FallbackConfig) bool { return same(o) && o.TLSConfig == nil })
		undecided := encrypts && (plain || config.SSLNegotiation == "direct")
		switch {
		case isLocal(c.Host) || !undecided:
			kept = append(kept, c)
		case c.TLSConfig != nil:
			verified := c.TLSConfig.Clone()
			verified.InsecureSkipVerify, verified.VerifyPeerCertificate, verified.ServerName = false, nil, c.Host
			kept = append(kept, &pgconn.FallbackConfig{Host: c.Host, Port: c.Port, TLSConfig: verified})
		}
	}
	config.Host, config.Port, config.TLSConfig = kept[0].Host, kept[0].Port, kept[0].TLSConfig
	config.Fallbacks = kept[1:]
}

// isLocal reports whether a host is a socket in the file system, or this machine itself.
func isLocal(host string) bool {
	if filepath.IsAbs(host) {
		return true
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	ip := net.ParseIP(host)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || ip != nil && ip.IsLoopback()
}

// isUnverified reports whether a server was not connected to because it has no TLS, or
// because its certificate is not valid for it.
func isUnverified(err error) bool {
	_, invalid := errors.AsType[*tls.CertificateVerificationError](err)
	return invalid || err != nil && strings.Contains(err.Error(), "server refused TLS connection")
}
