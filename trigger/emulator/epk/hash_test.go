package epk

import (
	"math"
	"strings"
	"testing"
)

var (
	hash1 = Definition{Kind: Hash, Version: 1}
	hash2 = Definition{Kind: Hash, Version: 2}
	multi = Definition{Kind: MultiHash, Version: 2}
)

// Sources of the vectors.
const (
	dotnet = "azure-cosmos-dotnet-v3 PartitionKeyInternalTest"
	java   = "azure-sdk-for-java PartitionKeyHashingTests"
	js     = "azure-sdk-for-js effectivePartitionKey.spec"
	rust   = "azure-sdk-for-rust azure_data_cosmos hash.rs"
)

func vectorKey(t *testing.T, header string) Key {
	t.Helper()
	key, err := ParseKey(header)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestHashVersion2(t *testing.T) {
	a := strings.Repeat("a", 1024)
	for _, v := range []struct{ source, key, want string }{
		{dotnet, `[]`, ``},
		{dotnet, `["redmond"]`, `22E342F38A486A088463DFF7838A5963`},
		{dotnet, `[5.0]`, `19C08621B135968252FB34B4CF66F811`},
		{dotnet, `[5.12312419050912359123]`, `0EF2E2D82460884AF0F6440BE4F726A8`},
		{dotnet, `[true]`, `0E711127C5B5A8E4726AC6DD306A3E59`},
		{dotnet, `[false]`, `2FE1BE91E90A3439635E0E9E37361EF2`},
		{dotnet, `[null]`, `378867E4430E67857ACE5C908374FE16`},
		{dotnet, `[{}]`, `11622DAA78F835834610ABE56EFF5CB5`},
		{dotnet, `[5.0, "redmond", true, null]`, `3032DECBE2AB1768D8E0AEDEA35881DF`},
		{dotnet, `["` + a[:145] + `"]`, `36375D21568760E891C9CB7002D5E059`},
		{java, `[""]`, `32E9366E637A71B4E710384B2F4970A0`},
		{java, `["partitionKey"]`, `013AEFCF77FA271571CF665A58C933F1`},
		{java, `["` + a + `"]`, `332BDF5512AE49615F32C7D98C2DB86C`},
		{java, `[-128]`, `01DAEDABF913540367FE219B2AD06148`},
		{java, `[127]`, `0C507ACAC853ECA7977BF4CEFB562A25`},
		{java, `[-9223372036854775808]`, `23D5C6395512BDFEAFADAD15328AD2BB`},
		{java, `[9223372036854775807]`, `2EDB959178DFCCA18983F89384D1629B`},
		{java, `[-2147483648]`, `0B1660D5233C3171725B30D4A5F4CC1F`},
		{java, `[2147483647]`, `2D9349D64712AEB5EB1406E2F0BE2725`},
		{java, `[4.9E-324]`, `0E6CBA63A280927DE485DEF865800139`},
		{java, `[1.7976931348623157E308]`, `31424D996457102634591FF245DBCC4D`},
		{js, `["aa"]`, `05033626483AE80D00E44FBD35362B19`},
		{js, `["` + a[:110] + `"]`, `0BA3E9CA8EE4C14538828D1612A4B652`},
		{js, `[5.5]`, `0E2EE47829D1AF775EEFB6540FD1D0ED`},
		{js, `[12313.1221]`, `27E7ECA8F2EE3E53424DE8D5220631C6`},
		{js, `[123456789]`, `1F56D2538088EBA82CCF988F36E16760`},
		{rust, `["customer42"]`, `19819C94CE42A1654CCC8110539D9589`},
	} {
		if got := hash2.Hash(vectorKey(t, v.key)); got != v.want {
			t.Errorf("%s: %s: got %s, want %s", v.source, v.key, got, v.want)
		}
	}
}

func TestHashMulti(t *testing.T) {
	for _, v := range []struct{ source, key, want string }{
		{rust, `["title_player_account!9E711EFBD3BBB492","Title-B60C1"]`, `2306FDF78C35ED4FD1C5835B075FC0B0248E1F58635558D12708326234F93A21`},
		{rust, `["title_player_account!9E711EFBD3BBB499"]`, `378CCD42FC556DDDE688B05DC178BB92`},
		{rust, `[false,null]`, `2FE1BE91E90A3439635E0E9E37361EF2378867E4430E67857ACE5C908374FE16`},
		{rust, `[1234,{}]`, `266B73B33A7065810B7D2A2938F85E8011622DAA78F835834610ABE56EFF5CB5`},
		{rust, `["redmond",5.0]`, `22E342F38A486A088463DFF7838A596319C08621B135968252FB34B4CF66F811`},
	} {
		if got := multi.Hash(vectorKey(t, v.key)); got != v.want {
			t.Errorf("%s: %s: got %s, want %s", v.source, v.key, got, v.want)
		}
	}
}

func TestHashVersion1(t *testing.T) {
	for _, v := range []struct{ source, key, want string }{
		{dotnet, `[2,true,false,null,{},"Привет!"]`, `05C1D19581B37C05C0000302010008D1A0D281D1B9D1B3D1B6D2832200`},
		{dotnet, `["по-русски",null,true,false,{},5.5]`, `05C1D39FA55F0408D1C0D1BF2ED281D284D282D282D1BBD1B9000103020005C016`},
		{java, `[""]`, `05C1CF33970FF80800`},
		{java, `["partitionKey"]`, `05C1E1B3D9CD2608716273756A756A706F4C667A00`},
		{java, `["` + strings.Repeat("a", 1024) + `"]`, `05C1EB5921F70608` + strings.Repeat("62", 100) + `00`},
		{java, `[null]`, `05C1ED45D7475601`},
		{java, `[{}]`, `05C1D529E345DC00`},
		{java, `[true]`, `05C1D7C5A903D803`},
		{java, `[false]`, `05C1DB857D857C02`},
		{java, `[-128]`, `05C1D73349F54C053FA0`},
		{java, `[127]`, `05C1DD539DDFCC05C05FE0`},
		{java, `[-9223372036854775808]`, `05C1DB35F33D1C053C20`},
		{java, `[9223372036854775807]`, `05C1B799AB2DD005C3E0`},
		{java, `[-2147483648]`, `05C1DFBF252BCC053E20`},
		{java, `[2147483647]`, `05C1E1F503DFB205C1DFFFFFFFFC`},
		{java, `[4.9E-324]`, `05C1E5C91F4D3005800101010101010102`},
		{java, `[1.7976931348623157E308]`, `05C1CBE367C53005FFEFFFFFFFFFFFFFFE`},
	} {
		if got := hash1.Hash(vectorKey(t, v.key)); got != v.want {
			t.Errorf("%s: %s: got %s, want %s", v.source, v.key, got, v.want)
		}
	}
}

// TestHashLongStrings holds the vectors of PartitionKeyInternalTest's
// TestManagedNativeCompatibility in azure-cosmos-dotnet-v3: strings about the
// length at which version 1 cuts them, in one and in two bytes a character.
func TestHashLongStrings(t *testing.T) {
	latin := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 5)
	cyrillic := strings.Repeat("абвгдеёжзийклмнопрстуфхцчшщъыьэюя", 4)
	for _, v := range []struct {
		text   string
		length int
		sum1   string // the hash as a number, the first 14 digits of version 1
		want2  string
	}{
		{latin, 99, "05C19B2DC38FC0", "072D8FA3228DD2A6C0A7129C845700E6"},
		{latin, 100, "05C1DD5D814964", "023D5F0B62EBEF22A43564F267193B4D"},
		{latin, 101, "05C1DD5D814964", "357D83181DB32D35F58CDA3C9F2E0742"},
		{latin, 116, "05C1DD5D814964", "2BA0757B833F3922A3CBBB6DDA3803B4"},
		{cyrillic, 49, "05C1C1BD37FE", "3742C1AF65AFA809282539F4BCDF2F6F"},
		{cyrillic, 50, "05C1B339EF4720", "399CF1F141E066E09CC7557EA7F0977A"},
		{cyrillic, 51, "05C1EB1F29DBFA", "2D63C2F5FDAC6EFE5660CD509A723A90"},
		{cyrillic, 99, "05C1E72F79C716", "1E9836D9BCB67FDB2B5C984BD40AFAF9"},
		{cyrillic, 100, "05C1E3653D9F3E", "16102F19448867537E51BB4377962AF9"},
		{cyrillic, 101, "05C1E3653D9F3E", "0B6D25D07748AB9CA0F523D4BAD146C8"},
	} {
		key := Key{String(string([]rune(v.text)[:v.length]))}
		if got := hash2.Hash(key); got != v.want2 {
			t.Errorf("version 2 of %d characters: got %s, want %s", v.length, got, v.want2)
		}
		want1 := v.sum1 + encodeHex(appendString(nil, string([]rune(v.text)[:min(v.length, 100)])))
		if got := hash1.Hash(key); got != want1 {
			t.Errorf("version 1 of %d characters: got %s, want %s", v.length, got, want1)
		}
	}
}

func TestHashVersion1KeepsAtMost101Bytes(t *testing.T) {
	// azure-cosmos-dotnet-v3 PartitionKeyInternalTest, 51 two-byte characters.
	const want = "05C1EB1F29DBFA08D1B1D1B2D1B3D1B4D1B5D1B6D292D1B7D1B8D1B9D1BAD1BBD1BCD1BDD1BED1BFD1C0D281D282D283D284D285D286D287D288D289D28AD28BD28CD28DD28ED28FD290D1B1D1B2D1B3D1B4D1B5D1B6D292D1B7D1B8D1B9D1BAD1BBD1BCD1BDD1BED1BFD1C0D2"
	text := []rune(strings.Repeat("абвгдеёжзийклмнопрстуфхцчшщъыьэюя", 2))
	if got := hash1.Hash(Key{String(string(text[:51]))}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTruncateCountsUTF16Units(t *testing.T) {
	for _, v := range []struct{ text, want string }{
		{strings.Repeat("😀", 50), strings.Repeat("😀", 50)},
		{strings.Repeat("😀", 51), strings.Repeat("😀", 50)},
		{"x" + strings.Repeat("😀", 50), "x" + strings.Repeat("😀", 49) + "\uFFFD"},
		{strings.Repeat("я", 100), strings.Repeat("я", 100)},
	} {
		if got := truncate(v.text); got != v.want {
			t.Errorf("truncate(%q) = %q, want %q", v.text, got, v.want)
		}
	}
}

func TestNumbersSortAsWritten(t *testing.T) {
	numbers := []float64{math.Inf(-1), -math.MaxFloat64, -1e9, -2, -1.5, -1, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, 0.1, 1, 1.5, 2, 2.1234344, 3, 1e9, 1 << 53, math.MaxFloat64, math.Inf(1)}
	for i := 1; i < len(numbers); i++ {
		low, high := encodeHex(appendNumber(nil, numbers[i-1])), encodeHex(appendNumber(nil, numbers[i]))
		if low >= high {
			t.Errorf("%g is written %s, not below %g written %s", numbers[i-1], low, numbers[i], high)
		}
	}
	for _, n := range numbers {
		if got, err := parseNumber(encodeHex(appendNumber(nil, n))); err != nil || got != n {
			t.Errorf("parseNumber of %g = %g, %v", n, got, err)
		}
	}
}
