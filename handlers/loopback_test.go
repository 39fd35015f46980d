package handlers

import "testing"

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:7071": true, "localhost:1": true, "LOCALHOST": true, "[::1]:80": true, "::1": true, "127.0.0.2": true,
		"": false, "10.0.0.1:80": false, "localhost.evil.example": false, "0.0.0.0:80": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) = %v", host, got)
		}
	}
}
