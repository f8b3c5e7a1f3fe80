package redis

import "testing"

func TestSlotOf(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "123456789": 12739, "foo": 12182, "{foo}": 12182, "mapwright:{foo}:crawl": 12182, "x{foo}{bar}": 12182,
		"{}foo": slotOf("{}foo"), "foo{": slotOf("foo{"), "{foo": slotOf("{foo"),
	} {
		if got := slotOf(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
	if slotOf("{}foo") == slotOf("foo") {
		t.Error("empty braces are a tag")
	}
}

func TestMovedTo(t *testing.T) {
	const asked = "10.0.0.1:6379"
	for answer, want := range map[string]string{
		"MOVED 3999 127.0.0.1:6381": "127.0.0.1:6381",
		"MOVED 3999 :6381":          "10.0.0.1:6381",
		"MOVED 3999 ::1:6381":       "[::1]:6381",
		"MOVED 3999 redis.test:1":   "redis.test:1",
		"MOVED":                     asked,
	} {
		if got := movedTo(answer, asked); got != want {
			t.Errorf("%q leads to %q, want %q", answer, got, want)
		}
	}
}

// Each time another node is asked first, and nodes that are found are asked too.
func TestNodesToAsk(t *testing.T) {
	n := newNodes([]string{"a", "b"})
	n.setHosts([]string{"b", "d"})
	n.setHosts([]string{"c", "b"})
	var first []string
	for range 4 {
		list := n.toAsk()
		if len(list) != 3 {
			t.Fatalf("the nodes are %q", list)
		}
		first = append(first, list[0])
	}
	if first[0] != "a" || first[1] != "b" || first[2] != "c" || first[3] != "a" {
		t.Errorf("asked first: %q", first)
	}
	n.setOwner(1, "a")
	if n.owner(1) != "a" || n.owner(2) != "" {
		t.Errorf("owners are %q and %q", n.owner(1), n.owner(2))
	}
	if n.forget(); n.owner(1) != "" {
		t.Error("the owner is not forgotten")
	}
}
