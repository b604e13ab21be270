// Writes what golang.org/x/mod/sumdb/{tlog,note} makes of fixed inputs, as JSON on standard output.
//
// Run by ../go.rs, which compares its output with ../vectors/xmod.json:
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run main.go
//
// Nothing here is random: entry i of the tree is the text "entry i", key k has the seed of 32 bytes k.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Leaves of the trees whose every proof is made.
const allProofs = 300

// Leaves of the tree whose tiles are made.
const leaves = 70000

type proofCase struct {
	Old    int64    `json:"old"` // the index, for an inclusion proof
	New    int64    `json:"new"`
	Hashes []string `json:"hashes"`
}

type tileStep struct {
	Old    int64      `json:"old"`
	New    int64      `json:"new"`
	First  [][]string `json:"first"`  // path, SHA-256 of the content, of the first few
	Digest string     `json:"digest"` // of a line "path SHA-256" for each
}

type noteCase struct {
	Note   string   `json:"note"`
	Keys   []string `json:"keys"`
	Opened bool     `json:"opened"`
	Signed []string `json:"signed"` // names of the keys that verified
}

type signedCase struct {
	Secret  string `json:"secret"`
	Key     string `json:"key"`
	Text    string `json:"text"`
	Message string `json:"message"`
}

type cosignCase struct {
	Name string `json:"name"`
	Seed byte   `json:"seed"`
	Key  string `json:"key"`
	Time uint64 `json:"time"`
	Text string `json:"text"`
	Line string `json:"line"`
}

type output struct {
	Roots              []string     `json:"roots"`
	InclusionDigests   []string     `json:"inclusion_digests"`
	ConsistencyDigests []string     `json:"consistency_digests"`
	Inclusions         []proofCase  `json:"inclusions"`
	Consistencies      []proofCase  `json:"consistencies"`
	LargeRoot          string       `json:"large_root"`
	Tiles              []tileStep   `json:"tiles"`
	Paths              [][]any      `json:"paths"` // level, index, width, path
	Trees              [][]any      `json:"trees"` // size, root in base64, text
	Signed             []signedCase `json:"signed"`
	Notes              []noteCase   `json:"notes"`
	Cosigned           []cosignCase `json:"cosigned"`
}

type storage []tlog.Hash

func (s storage) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var found []tlog.Hash
	for _, index := range indexes {
		found = append(found, s[index])
	}
	return found, nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hexes(hashes []tlog.Hash) []string {
	texts := []string{}
	for _, hash := range hashes {
		texts = append(texts, hex.EncodeToString(hash[:]))
	}
	return texts
}

func digest(digested []byte) string {
	sum := sha256.Sum256(digested)
	return hex.EncodeToString(sum[:])
}

// signer is key k under the given name, in both text forms.
func signer(name string, k byte) (note.Signer, note.Verifier, string, string) {
	secret, public, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{k}, 32)), name)
	check(err)
	s, err := note.NewSigner(secret)
	check(err)
	v, err := note.NewVerifier(public)
	check(err)
	return s, v, secret, public
}

func trees(out *output) storage {
	var stored storage
	for i := int64(0); i < leaves; i++ {
		added, err := tlog.StoredHashes(i, []byte(fmt.Sprintf("entry %d", i)), stored)
		check(err)
		stored = append(stored, added...)
	}
	out.Roots = append(out.Roots, digest(nil)) // x/mod has no root of no entries; RFC 6962 has this one
	for n := int64(1); n <= allProofs; n++ {
		root, err := tlog.TreeHash(n, stored)
		check(err)
		out.Roots = append(out.Roots, hex.EncodeToString(root[:]))
		var inclusions, consistencies []byte
		for i := int64(0); i < n; i++ {
			proof, err := tlog.ProveRecord(n, i, stored)
			check(err)
			for _, hash := range proof {
				inclusions = append(inclusions, hash[:]...)
			}
			if n == 13 || (n == 300 && (i == 0 || i == 255 || i == 256 || i == 299)) {
				out.Inclusions = append(out.Inclusions, proofCase{i, n, hexes(proof)})
			}
		}
		for m := int64(1); m <= n; m++ {
			proof, err := tlog.ProveTree(n, m, stored)
			check(err)
			for _, hash := range proof {
				consistencies = append(consistencies, hash[:]...)
			}
			if n == 13 || (n == 300 && (m == 1 || m == 255 || m == 256 || m == 257)) {
				out.Consistencies = append(out.Consistencies, proofCase{m, n, hexes(proof)})
			}
		}
		out.InclusionDigests = append(out.InclusionDigests, digest(inclusions))
		out.ConsistencyDigests = append(out.ConsistencyDigests, digest(consistencies))
	}
	root, err := tlog.TreeHash(leaves, stored)
	check(err)
	out.LargeRoot = hex.EncodeToString(root[:])
	for _, i := range []int64{0, 1, 255, 256, 65535, 65536, 69631, 69632, 69999} {
		proof, err := tlog.ProveRecord(leaves, i, stored)
		check(err)
		out.Inclusions = append(out.Inclusions, proofCase{i, leaves, hexes(proof)})
	}
	for _, m := range []int64{1, 2, 256, 257, 65535, 65536, 65537, 69632, 69999} {
		proof, err := tlog.ProveTree(leaves, m, stored)
		check(err)
		out.Consistencies = append(out.Consistencies, proofCase{m, leaves, hexes(proof)})
	}
	return stored
}

func tiles(out *output, stored storage) {
	sizes := []int64{0, 1, 2, 255, 256, 257, 300, 511, 512, 1000, 65535, 65536, 65537, 65792, leaves}
	for i := 1; i < len(sizes); i++ {
		step := tileStep{Old: sizes[i-1], New: sizes[i]}
		var lines []byte
		listed := tlog.NewTiles(8, step.Old, step.New)
		for i, tile := range listed {
			// x/mod lists every width that a tile passes through, from the old one on; a log stores the last.
			passed := i+1 < len(listed) && listed[i+1].L == tile.L && listed[i+1].N == tile.N
			existed := step.Old>>(8*tile.L)-tile.N<<8 == int64(tile.W)
			if passed || existed {
				continue
			}
			data, err := tlog.ReadTileData(tile, stored)
			check(err)
			lines = append(lines, tile.Path()+" "+digest(data)+"\n"...)
			if len(step.First) < 5 {
				step.First = append(step.First, []string{tile.Path(), digest(data)})
			}
		}
		step.Digest = digest(lines)
		out.Tiles = append(out.Tiles, step)
	}
	for _, tile := range []tlog.Tile{
		{8, 0, 0, 256}, {8, 0, 0, 1}, {8, 0, 999, 256}, {8, 0, 1000, 256}, {8, 1, 1234067, 255}, {8, 2, 999999, 17},
		{8, 3, 1000000, 256}, {8, 0, 123456789012345, 9}, {8, 6, 0, 127},
	} {
		out.Paths = append(out.Paths, []any{tile.L, tile.N, tile.W, tile.Path()})
	}
	for _, n := range []int64{0, 1, 300, 1<<63 - 1} {
		hash := tlog.RecordHash([]byte(fmt.Sprint(n)))
		text := tlog.FormatTree(tlog.Tree{N: n, Hash: hash})
		out.Trees = append(out.Trees, []any{fmt.Sprint(n), hash.String(), string(text)})
	}
}

func notes(out *output) {
	texts := []string{"a\n", "\n", "two\nlines\n", "an\n\nempty line\n", "ends empty\n\n", "— looks like AAAAAAA=\n", "è ß 漢字 \u0085\n"}
	for k, text := range texts {
		name := []string{"example.com/log", "k", "clé", "— ", "a/b-c_d.e"}[k%5]
		if name == "— " {
			name = "—"
		}
		s, _, secret, public := signer(name, byte(k+1))
		message, err := note.Sign(&note.Note{Text: text}, s)
		check(err)
		out.Signed = append(out.Signed, signedCase{secret, public, text, string(message)})
	}

	one, _, _, oneKey := signer("one", 11)
	two, _, _, twoKey := signer("two", 12)
	other, _, _, otherKey := signer("one", 13) // the name of `one`, another key
	text := "example.com/log\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
	line := func(s note.Signer, text string) string {
		sig, err := s.Sign([]byte(text))
		check(err)
		id := binary.BigEndian.AppendUint32(nil, s.KeyHash())
		return "— " + s.Name() + " " + base64.StdEncoding.EncodeToString(append(id, sig...)) + "\n"
	}
	l1, l2, lo, bad := line(one, text), line(two, text), line(other, text), line(one, "another\n")
	try := func(message string, keys ...string) {
		var known []note.Verifier
		for _, key := range keys {
			v, err := note.NewVerifier(key)
			check(err)
			known = append(known, v)
		}
		c := noteCase{Note: message, Keys: keys, Signed: []string{}}
		if opened, err := note.Open([]byte(message), note.VerifierList(known...)); err == nil {
			c.Opened = true
			for _, sig := range opened.Sigs {
				c.Signed = append(c.Signed, fmt.Sprintf("%s+%08x", sig.Name, sig.Hash))
			}
		}
		out.Notes = append(out.Notes, c)
	}
	try(text+"\n"+l1, oneKey)
	try(text+"\n"+l1, twoKey)
	try(text+"\n"+l1, otherKey)
	try(text+"\n"+l1+l2, oneKey)
	try(text+"\n"+l1+l2, twoKey)
	try(text+"\n"+l1+l2, oneKey, twoKey)
	try(text+"\n"+l2+l1, oneKey, twoKey)
	try(text+"\n"+lo+l1, oneKey)
	try(text+"\n"+l1+l1, oneKey)
	try(text+"\n"+l2+l2+l1, oneKey)
	try(text+"\n"+bad, oneKey)
	try(text+"\n"+bad+l1, oneKey)
	try(text+"\n"+l1+bad, oneKey) // differs: x/mod does not look at a key's second line
	try(text+"\n"+bad+l2, twoKey)
	try(text+"\n"+bad+l2, oneKey, twoKey)
	try(text+l1, oneKey)
	try(text+"\n\n"+l1, oneKey)
	try("x"+text+"\n"+l1, oneKey)
	try(text+"\n", oneKey)
	try(text, oneKey)
	try("", oneKey)
	try("\n"+l1, oneKey)
	try(text+"\n"+l1[:len(l1)-1], oneKey)
	try(text+"\n"+l1+"\n", oneKey)
	try(text+"\n"+l1+"\n"+l2, twoKey)
	try(text+"\n"+l1+"x\n", oneKey)
	try(text+"\n"+"- one"+l1[len("— one"):], oneKey)
	try(text+"\n"+"—  one"+l1[len("— one"):], oneKey)
	try(text+"\n"+"— o ne"+l1[len("— one"):], oneKey)
	try(text+"\n"+"— o+ne"+l1[len("— one"):]+l1, oneKey)
	try(text+"\n"+"— o\u00a0ne"+l1[len("— one"):]+l1, oneKey)
	try(text+"\n"+"— o\u2003ne"+l1[len("— one"):]+l1, oneKey)
	try(text+"\n"+"— o\u200bne"+l1[len("— one"):]+l1, oneKey)
	try(text+"\n"+"— x AAAA\n"+l1, oneKey)
	try(text+"\n"+"— x AAAAAA==\n"+l1, oneKey)
	try(text+"\n"+"— x AAAAAAA=\n"+l1, oneKey)
	try(text+"\n"+"— x AAAAAAA\n"+l1, oneKey)
	try(text+"\n"+"— x AAAAAAB=\n"+l1, oneKey) // differs: x/mod takes bits that no encoder writes
	try(text+"\n"+"— x AAAAAA-=\n"+l1, oneKey)
	try(text+"\n"+"— x \n"+l1, oneKey)
	try(text+"\n"+"— x\n"+l1, oneKey)
	try("t\x00\n\n"+line(one, "t\x00\n"), oneKey)
	try("t\r\n\n"+line(one, "t\r\n"), oneKey)
	try("t\t\n\n"+line(one, "t\t\n"), oneKey)
	try("t\x7f\n\n"+line(one, "t\x7f\n"), oneKey)
	try("t\ufffd\n\n"+line(one, "t\ufffd\n"), oneKey)
	many := text + "\n"
	for i := 0; i < 99; i++ {
		many += "— x AAAAAAA=\n"
	}
	try(many+l1, oneKey)
	try(many+"— x AAAAAAA=\n"+l1, oneKey)
}

// Cosignatures are not in x/mod: this follows the text of C2SP tlog-cosignature with Go's own Ed25519.
func cosigned(out *output) {
	text := "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
	for k, time := range []uint64{0, 1, 1679315147, 1<<63 - 1} {
		seed := byte(21 + k)
		name := fmt.Sprintf("witness.example/w%d", k)
		key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
		material := append([]byte{4}, key.Public().(ed25519.PublicKey)...)
		id := sha256.Sum256(append([]byte(name+"\n"), material...))
		message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", time, text)
		signature := binary.BigEndian.AppendUint64(append([]byte{}, id[:4]...), time)
		signature = append(signature, ed25519.Sign(key, []byte(message))...)
		out.Cosigned = append(out.Cosigned, cosignCase{
			Name: name,
			Seed: seed,
			Key:  fmt.Sprintf("%s+%x+%s", name, id[:4], base64.StdEncoding.EncodeToString(material)),
			Time: time,
			Text: text,
			Line: "— " + name + " " + base64.StdEncoding.EncodeToString(signature) + "\n",
		})
	}
}

func main() {
	var out output
	stored := trees(&out)
	tiles(&out, stored)
	notes(&out)
	cosigned(&out)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(out))
}
