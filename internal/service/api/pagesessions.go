package api

import (
	"crypto/subtle"
	"net/http"

	"github.com/mapwright/mapwright/internal/service"
)

// Session finds the caller of a request for a page, and the token that forms of its session carry. The error is a
// *service.Error.
func (s *Server) Session(w http.ResponseWriter, r *http.Request) (caller *service.Caller, token string, err error) {
	caller, cred, err := s.authenticate(w, r)
	return caller, cred.csrf, err
}

// CheckForm refuses a form that does not come from a page of the session with this token. Its field csrf has the token.
func (s *Server) CheckForm(r *http.Request, token string) error {
	if err := s.origins.Check(r); err != nil {
		return refuse(service.ErrForbidden, "the form comes from another site")
	}
	if token == "" || subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(token)) != 1 {
		return refuse(service.ErrForbidden, "the form is not of this session: load the page again")
	}
	return nil
}

// EndSession ends the session of a request.
func (s *Server) EndSession(w http.ResponseWriter, r *http.Request) error {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil // there is none
	}
	http.SetCookie(w, s.cookie("", -1))
	return s.sessions.End(r.Context(), cookie.Value)
}

// cookie is the cookie of a session. Scripts cannot read it, and requests of other sites do not carry it.
func (s *Server) cookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: value, Path: s.base + "/", MaxAge: age, HttpOnly: true,
		Secure: s.secure, SameSite: http.SameSiteStrictMode}
}
