package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/proxy"
)

// isHTTPProxy reports whether there is a proxy that reads requests for http URLs. Of all others it makes tunnels, as a
// SOCKS proxy does of all.
func isHTTPProxy(proxy *url.URL) bool { return proxy != nil && strings.HasPrefix(proxy.Scheme, "http") }

// proxyAddr is the address of a proxy.
func proxyAddr(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	}
	addr := net.JoinHostPort(proxy.Hostname(), port)
	if ascii, err := httpguts.PunycodeHostPort(addr); err == nil {
		return ascii
	}
	return addr
}

// toProxy connects to the proxy, whose address is addr, and makes TLS with it if it is an https proxy. The handshake is
// bounded as those of hosts, but what the proxy sends is not counted: the user chose it.
func (d *dialer) toProxy(ctx context.Context, network, addr string) (*countedConn, error) {
	conn, err := d.connect(ctx, network, addr, true)
	if err == nil && d.proxy.Scheme == "https" {
		// No client certificate, and no session: one with the same name may not have been verified.
		cfg := &tls.Config{RootCAs: d.tls.RootCAs, NextProtos: []string{"http/1.1"}}
		cfg.ServerName, _, _ = net.SplitHostPort(addr)
		var secure *tls.Conn
		if secure, err = d.handshake(ctx, conn.Conn, cfg); err != nil {
			conn.Close()
		} else {
			conn.Conn = secure
		}
	}
	if err != nil {
		return nil, &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err} // as net/http does
	}
	return conn, nil
}

// tunnel connects to a host by the proxy.
func (d *dialer) tunnel(ctx context.Context, network, addr string) (*countedConn, error) {
	conn, err := d.toProxy(ctx, network, proxyAddr(d.proxy))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, tunnelTimeout)
	defer cancel()
	ask := askHTTP
	if !isHTTPProxy(d.proxy) {
		ask = askSOCKS
	}
	if err := ask(ctx, conn, d.proxy.User, addr); err != nil {
		conn.Close()
		return nil, &phaseError{phaseConnect, err}
	}
	return conn, nil
}

// askHTTP asks an HTTP proxy for a tunnel. It reads nothing of what comes through it.
func askHTTP(ctx context.Context, conn net.Conn, user *url.Userinfo, addr string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	var res *http.Response
	err := req.Write(conn)
	if err == nil {
		answer := bufio.NewReader(byteReader{io.LimitReader(conn, maxHeader)})
		res, err = http.ReadResponse(answer, req)
	}
	switch {
	case !stop():
		return ctx.Err()
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return &proxyError{Status: res.StatusCode}
	}
	return nil
}

// A byteReader reads one byte at a time, so that who buffers it has never read more than was needed.
type byteReader struct{ io.Reader }

func (r byteReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }

// askSOCKS asks a SOCKS proxy for a tunnel. The proxy looks the host's name up.
func askSOCKS(ctx context.Context, conn net.Conn, user *url.Userinfo, addr string) error {
	var auth *proxy.Auth
	if user != nil {
		auth = &proxy.Auth{User: user.Username()}
		auth.Password, _ = user.Password()
	}
	socks, err := proxy.SOCKS5("tcp", conn.RemoteAddr().String(), auth, connected{conn})
	if err != nil {
		return err
	}
	_, err = socks.(proxy.ContextDialer).DialContext(ctx, "tcp", addr)
	return err
}

// connected is the dialer of a proxy to which there is a connection.
type connected struct{ net.Conn }

func (c connected) Dial(string, string) (net.Conn, error) { return c.Conn, nil }

func (c connected) DialContext(context.Context, string, string) (net.Conn, error) { return c.Conn, nil }
