package lease

// NoPrefix is the setting of the empty prefix of lease ids.
const NoPrefix = "/"

// IDPrefix returns the text before the account's host name in the lease ids of a function,
// from its name and the setting of the prefix.
func IDPrefix(function, prefix string) string {
	switch prefix {
	case "":
		return function
	case NoPrefix:
		return ""
	}
	return prefix
}
