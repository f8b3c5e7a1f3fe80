package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

type spdxPackage struct {
	ID           string         `json:"SPDXID"`
	Name         string         `json:"name"`
	Version      string         `json:"versionInfo"`
	Location     string         `json:"downloadLocation"`
	Analyzed     bool           `json:"filesAnalyzed"`
	Concluded    string         `json:"licenseConcluded"`
	Declared     string         `json:"licenseDeclared"`
	Copyright    string         `json:"copyrightText"`
	Purpose      string         `json:"primaryPackagePurpose,omitempty"`
	Checksums    []spdxChecksum `json:"checksums,omitempty"`
	ExternalRefs []spdxRef      `json:"externalRefs"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// bill lists what is in the program, as an SPDX 2.3 document.
func (b *build) bill() ([]byte, error) {
	sum := fmt.Sprintf("%x", sha256.Sum256(b.program))
	const self = "SPDXRef-mapwright"
	doc := struct {
		Version       string             `json:"spdxVersion"`
		Licence       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      map[string]any     `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}{
		Version: "SPDX-2.3", Licence: "CC0-1.0", ID: "SPDXRef-DOCUMENT",
		Name:      fmt.Sprintf("mapwright %s for %s", b.version, b.target),
		Namespace: "https://github.com/mapwright/mapwright/spdx/" + sum,
		Creation: map[string]any{"created": b.time.Format(time.RFC3339),
			"creators": []string{"Tool: mapwright-release-" + b.version}},
		Packages: []spdxPackage{{ID: self, Name: "github.com/mapwright/mapwright", Version: b.version,
			Location: "NOASSERTION", Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: "NOASSERTION",
			Purpose: "APPLICATION", Checksums: []spdxChecksum{{"SHA256", sum}},
			ExternalRefs: []spdxRef{purl("github.com/mapwright/mapwright", "v"+b.version)}}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", self}},
	}
	for _, m := range b.modules {
		if err := m.check(); err != nil {
			return nil, err
		}
		id := "SPDXRef-" + regexp.MustCompile(`[^A-Za-z0-9.]+`).ReplaceAllString(m.path, "-")
		licence := strings.Join(m.licences, " AND ")
		doc.Packages = append(doc.Packages, spdxPackage{ID: id, Name: m.path, Version: m.version,
			Location: "NOASSERTION", Concluded: licence, Declared: licence, Copyright: "NOASSERTION",
			ExternalRefs: []spdxRef{purl(m.path, m.version)}})
		doc.Relationships = append(doc.Relationships, spdxRelationship{self, "DEPENDS_ON", id})
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	return append(text, '\n'), err
}

func purl(path, version string) spdxRef {
	return spdxRef{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}
}
