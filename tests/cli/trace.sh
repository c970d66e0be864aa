#!/bin/sh
# --trace and --break-nan: a tile at a line, row by row, the same on cpu and on simt; which names there are; the
# first NaN or infinity.
. "$(dirname "$0")/expect"
export TEGULA_CACHE=off

cat >k.tgl <<'END2'
kernel norm(x: in f32[M, N], y: out f32[M, N]) grid(i: cdiv(M, 2), j: 2) {
    let t = x[i * 2 +: 2, j * 3 +: 3];
    var s = t * 0.5;
    for k in range(2) {
        s = s + k as f32;
    }
    let (m, b) = (max(t, axis=1), t < 5);
    y[i * 2 +: 2, j * 3 +: 3] = s;
}
reference norm { y[:, :] = x[:, :] * 0.5 + 1; }
example norm { M = 3; N = 6; x = iota([3, 6], 1) as f32 * 2.25; }
kernel wide(x: in f32[N], y: out f32[N]) grid(i: 1) {
    let v = x[0 +: 1500];
    y[0 +: 1500] = sqrt(v - 4);
}
example wide { N = 1500; x = iota([1500], 0) as f32; }
END2

# What is printed, but for the report of the run; the order of programs is the threads'.
traced()
{
	"$tegula" run k.tgl norm "$@" | sed '/^norm /,$d'
}
cat >want <<'END2'
program (1, 0): t@2: f32[2, 3]
[[   0 2.25  4.5]
 [   0    0    0]]
END2
for device in cpu simt simt:sm_75; do
	traced --device=$device '--trace=t@2,program=(1, 0)' >got
	holds cmp -s want got
done
cat >want <<'END2'
program (0, 1): s@5: f32[2, 3]
[[3.375   4.5 5.625]
 [3.375   4.5 5.625]]
program (0, 1): s@5: f32[2, 3]
[[4.375   5.5 6.625]
 [4.375   5.5 6.625]]
END2
for device in cpu simt simt:sm_100a; do
	traced --device=$device '--trace=s@5,program=(0,1)' >got
	holds cmp -s want got
done
printf 'program (1, 1): b@7: bool[2, 3]\n[[false false false]\n [ true  true  true]]\n' >want
for device in cpu simt:sm_80; do
	traced --device=$device '--trace=b@7,program=(1,1)' >got
	holds cmp -s want got
done
expect 0 '^program (0, 1): k@4: i64 1$' run k.tgl norm --device=simt '--trace=k@4'
expect 0 '^program (1, 0): i@1: i64 1$' run k.tgl norm --trace=i@1
expect 0 '^\[   0    1    2 ... 1497 1498 1499\]$' run k.tgl wide --trace=v@13
expect 0 '^\[   0    1    2 ... 1497 1498 1499\]$' \
    run k.tgl wide --trace=v@13 --device=simt
expect 0 '^program (0, 1): m@7: f32.2.$' check k.tgl --trace=m@7 --device=cpu
holds grep -q "W1217" "$err"

# an index that the body takes apart is two
cat >apart.tgl <<'END2'
kernel apart(x: in f32[M, N], y: out f32[M, N]) grid(pid: M * N) {
    let m = pid / N;
    y[m, pid % N] = x[m, pid % N];
}
example apart { M = 2; N = 3; x = normal; }
END2
expect 0 '^program (2, 1): m@2: i64 1$' run apart.tgl '--trace=m@2,program=(2, 1)'
expect 1 "E1217" run apart.tgl --trace=pid@1
holds grep -q 'pid_0@1, pid_1@1' "$err"

# names and lines that are none
expect 1 "E1217" run k.tgl norm --trace=zz@3
holds grep -q 'names of that line: s@3$' "$err"
expect 1 "E1217" run k.tgl norm --trace=s@8
holds grep -q 'the name gets values at s@3, s@5$' "$err"
expect 1 "E1217" run k.tgl norm --trace=zz@8 --device=simt
holds grep -q 'there are .*t@2, s@3, k@4, s@5, m@7, b@7$' "$err"
for text in s s@ @3 s@0 s@3, s@3,program=x 's@3,program=(1,2' 's@3,program=(1,2,3,4)' s@3,program=1,2 s@3,shared= s@3,shared=1,program=1; do
	expect 1 "E1216" run k.tgl norm "--trace=$text"
done

# who wrote a byte of shared memory last: a reduction's scratch, what copies brought; bytes that there are not
cat >shared.tgl <<'END2'
kernel product<BK = 32, warps = 4>(a: in f16[M, K], b: in f16[K, N], c: out f32[M, N]) grid(m: cdiv(M, 64), n: cdiv(N, 64)) {
    var acc = zeros([64, 64], f32);
    for k in range(0, K, BK) {
        acc += a[m * 64 +: 64, k +: BK] @ b[k +: BK, n * 64 +: 64];
    }
    let s = sum(acc, axis = 1);
    let top = max(s);
    c[m * 64 +: 64, n * 64 +: 64] = acc + top;
}
example product { M = 64; N = 128; K = 64; a = normal(0, 1); b = normal(0, 1); }
END2
for target in sm_80 sm_90a; do
	writer() { expect 0 "$1" run shared.tgl --device=simt:$target "--trace=$2,program=(0,1),shared=$3"; }
	writer "^byte 4100 of shared memory, the tile of 'a', element .0, 2. of slot 1: program (0, 1), warp 0, lane 0 had it copied here: shared.tgl:4:16$" top@7 4100
	holds test "$(grep -c '^byte' "$out")" = 1
	writer "^byte 20000 of shared memory, the tile of 'b', .* had it copied here: shared.tgl:4:43$" acc@4 20000
	holds test "$(grep -c '^byte' "$out")" = 2
	writer "^byte 20000 of .*: nothing was written there yet$" acc@2 20000
	writer "^byte 999999 of shared memory: a block has 32[78]" top@7 999999
done
writer "^byte 0 of .* of what reduce of 'top' keeps there: program (0, 1), warp 0, lane 0 wrote it here: shared.tgl:7:15$" top@7 0
expect 0 'known with checks alone' run shared.tgl --device=simt --unchecked --trace=top@7,shared=0
expect 0 '^program (0, 0): top@7' run shared.tgl --device=cpu --trace=top@7,shared=0
refuse '^byte'

# a program that is none
for device in cpu simt:sm_80; do
	expect 0 "W1218" run k.tgl norm --device=$device '--trace=t@2,program=(1, 2)'
	holds grep -q 'the grid has no program (1, 2); it is 2 x 2 x 1' "$err"
	holds test "$(grep -c W1218 "$err")" = 1
done
expect 0 "W1218" run k.tgl norm --trace=t@2,program=2
expect 0 '^program (1, 0): t@2' run k.tgl norm --trace=t@2,program=1
holds test ! -s "$err"

expect 1 'looks for names in the source' run k.tgl norm --trace=t@2 --ir=none.tir

# warps that are a turn ahead
cat >want <<'END2'
program (0, 1): s@5: f32[2, 3]
[[3.375   4.5 5.625]
 [3.375   4.5 5.625]]
program (0, 1): s@5: f32[2, 3]
[[4.375   5.5 6.625]
 [4.375   5.5 6.625]]
END2
for schedule in 1 2 3; do
	traced --device=simt --schedule=$schedule '--trace=s@5,program=(0,1)' >got
	holds cmp -s want got
done

# every kind of element
cat >mix.tgl <<'END2'
kernel mix(a: in f64[N], b: in bf16[N], c: in i8[N], d: in f8e4m3[N], e: in i4[N], u: in u64[N], y: out f32[N])
    grid(i: cdiv(N, 8)) {
    let o = i * 8;
    let (ta, tb, tc, td, te, tu) = (a[o +: 8] * 3, b[o +: 8], c[o +: 8] - 3, d[o +: 8], e[o +: 8], u[o +: 8]);
    y[i * 8 +: 8] = ta as f32;
}
END2
for name in ta tb tc td te tu; do
	for device in cpu simt; do
		"$tegula" run mix.tgl --device=$device --trace=$name@4,program=1 -D N=11 --arg 'a=normal(0, 1)' \
		    --arg 'b=normal(0, 1)' --arg 'c=randint(-9, 9)' --arg 'd=normal(0, 1)' --arg 'e=randint(-8, 7)' \
		    --arg 'u=randint(0, 99)' | sed '/^mix/,$d' >got.$device
	done
	holds grep -q "^program 1: $name@4: [a-z0-9]*.8.\$" got.cpu
	holds cmp -s got.cpu got.simt
done

# the first NaN or infinity that was not there before, at the same place on both devices
cat >n.tgl <<'END2'
kernel wide(x: in f32[N], y: out f32[N]) grid(i: 1) {
    let v = x[0 +: 1500];
    y[0 +: 1500] = sqrt(v - 4);
}
example wide { N = 1500; x = iota([1500], 0) as f32; }
kernel endless(x: in f32[64], y: out f32[64]) grid(i: 1) {
    let v = where(arange(0, 64) < 60, x[0 +: 64], -inf);
    let e = exp(v - max(v, axis=0));
    y[0 +: 64] = e / (x[0 +: 64] - 7);
}
example endless { x = iota([64], 0) as f32; }
kernel masked(x: in f32[M, N], y: out f32[M, N]) grid(i: cdiv(M, 4)) {
    let v = x[i * 4 +: 4, 0 +: 32] else -inf;
    let e = exp(v - max(v, axis=1)[:, new]);
    y[i * 4 +: 4, 0 +: 32] = e / sum(e, axis=1)[:, new];
}
example masked { M = 6; N = 21; x = normal(0, 3); }
kernel edge(x: in f32[N], w: in f32[M], y: out f32[N]) grid(i: cdiv(N, 32)) {
    y[i * 32 +: 32] = x[i * 32 +: 32] / w[i * 32 +: 32];
}
example edge { N = 50; M = 50; x = normal(0, 1); w = uniform(1, 2); }
example edge "short" { N = 50; M = 45; x = uniform(1, 2); w = uniform(1, 2); }
kernel lanes(x: *f32, y: *mut f32, n: i32) grid(i: cdiv(n, 32)) {
    let o = i as i32 * 32 + arange(0, 32);
    store(y + o, 1 / load(x + o, o < n), o < n);
}
kernel turns(x: in f16[M, K], w: in f16[K, N], s: in f32[M], y: out f32[M, N]) grid(i: cdiv(M, 16), j: cdiv(N, 32)) {
    var acc = zeros([16, 32], f32);
    for k in range(cdiv(K, 32)) {
        acc = dot(x[i * 16 +: 16, k * 32 +: 32], w[k * 32 +: 32, j * 32 +: 32], acc);
    }
    let scaled = acc / s[i * 16 +: 16][:, new];
    y[i * 16 +: 16, j * 32 +: 32] = scaled;
}
example turns { M = 21; N = 40; K = 70; x = uniform(1, 2); w = uniform(1, 2); s = uniform(1, 2); }
example turns "zero" { M = 21; N = 40; K = 70; x = uniform(1, 2); w = uniform(1, 2); s = iota([21], 0) as f32 - 19; }
kernel doubles(x: in f64[N], y: out f64[N]) grid(i: 1) {
    var v = x[0 +: 100];
    for k in range(40) { v = v * v; }
    y[0 +: 100] = v;
}
example doubles { N = 100; x = iota([100], 0) as f64 / 10; }
END2
# kernel and options, then the message
breaks()
{
	what=$1 message=$2
	for device in "--device=cpu --threads=1" --device=simt --device=simt:sm_75 "--device=simt:sm_100a --schedule=3 --unchecked"; do
		# shellcheck disable=SC2086
		expect 1 "E1215" run n.tgl $what --break-nan $device
		holds grep -Fq "n.tgl:$message" "$err"
	done
}
breaks wide "3:20: error: program 0: sqrt makes nan at [0] of f32[1500] [E1215]"
breaks endless "9:18: error: program 0: div makes inf at [7] of f32[64] [E1215]"
breaks "edge --example=short" "19:23: error: program 1: div makes inf at [13] of f32[32] [E1215]"
breaks "turns --example=zero" "32:18: error: program (1, 0): div makes inf at [3, 0] of 'scaled', f32[16, 32] [E1215]"
breaks doubles "39:30: error: program 0: mul makes inf at [40] of 'v', f64[100] [E1215]"
# fills, masks and padding are none
for device in cpu simt simt:sm_80; do
	for kernel in masked edge; do
		expect 0 '' run n.tgl $kernel --break-nan --device=$device
	done
	expect 0 '' run n.tgl turns --break-nan --device=$device
	expect 0 '' run n.tgl lanes --break-nan --device=$device --arg n=45 --arg 'x=uniform(1, 2, shape=[64])' --arg 'y=full([64], 0)'
	expect 0 'good' run k.tgl norm --break-nan --device=$device
done
"$tegula" run k.tgl norm --device=simt --dump=barrier | sed '/^norm /,$d' >norm.tir
expect 1 "E1218" run k.tgl norm --device=simt --ir=norm.tir --break-nan

# GPUs do neither, which stand-ins for their drivers show
for gpu in cuda metal; do
	mock=$(dirname "$tegula")/mock_objc; [ $gpu = metal ] || mock=$(dirname "$tegula")/mock
	[ -n "$(ls "$mock" 2>/dev/null)" ] || continue
	LD_LIBRARY_PATH=$mock expect 1 "printing what --trace asks for .* is not possible on .*E1301" \
	    run k.tgl norm --device=$gpu --trace=t@2
	LD_LIBRARY_PATH=$mock expect 1 "device '$gpu' cannot be opened: it cannot look for NaN" \
	    run k.tgl norm --device=$gpu --break-nan
	holds grep -q "open the device 'cpu' or 'simt'" "$err"
done
finish
