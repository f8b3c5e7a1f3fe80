package hooks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Headers of a delivery. They and the signature are those of the Standard Webhooks specification, for which receivers
// find libraries.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp" // Unix seconds
	headerSignature = "Webhook-Signature" // one or more of "v1,BASE64", separated by spaces
)

const secretPrefix = "whsec_"

// newSecret draws a secret that a webhook and its receiver share.
func newSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// sign signs a body together with the delivery's id and the time at which it is sent, so that neither can be exchanged
// and an old request cannot be sent again unnoticed.
func sign(secret, id string, at time.Time, body []byte) (string, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !ok {
		return "", errors.New("sign a delivery: the secret is damaged")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}
