# run and check: values in and out, seeds, threads, exits.
. "$(dirname "$0")/expect"
cp "$top/tests/cli/saxpy.tgl" "$top/tests/cli/rows.tgl" "$top/tests/cli/two.tgl" .

expect 0 "check y: good" run saxpy.tgl
holds grep -q 'N = 4096,' "$out"
holds grep -q '  y: f32\[4096\]' "$out"
holds grep -q 'GB/s.*GFLOP/s' "$out"
expect 0 "saxpy ragged on cpu" run saxpy.tgl saxpy --example ragged
expect 1 'no example "nope"' run saxpy.tgl --example nope
expect 1 "no kernel 'sxapy'" run saxpy.tgl sxapy
expect 1 "did you mean 'saxpy'" build saxpy.tgl sxapy
expect 1 "no device 'tpu'" run saxpy.tgl --device tpu
expect 1 "no device 'tpu'" check saxpy.tgl --device tpu

expect 0 "check: the kernel has no reference" run two.tgl halved
expect 0 "y: f32\[10\]" run two.tgl doubled
holds grep -q '\[0 2 4 ... 14 16 18\]' "$out"
expect 0 "1 good, 0 wrong, 0 failed, 1 without a reference" check two.tgl

# A scalar that only a u64 holds.
echo 'kernel top(b: u64, y: out f64[1]) { y[0] = (b >> 40) as f64; } example top { b = 1; }' >top.tgl
expect 1 "help: its examples have no labels" run top.tgl --example nope
expect 1 "no example .nope.; its examples have no labels" build top.tgl --example nope
expect 1 "did you mean 'ragged'? there are 'ragged', 'large'$" run saxpy.tgl --example raged
expect 0 "1.6777e+07" run top.tgl -D b=18446744073709551615 --device cpu
holds grep -q 'b = 18446744073709551615' "$out"
expect 2 "18446744073709551616 is too large for 64 bits" run top.tgl -D b=18446744073709551616

# A packed row of odd length goes out and comes in.
cat >odd.tgl <<'END'
kernel odd(x: in i4[R, C], q: out i4[R, C]) grid(r: R) { q[r, 0 +: 8] = x[r, 0 +: 8]; }
reference odd { q[:, :] = x[:, :]; }
example odd { R = 3; C = 7; x = integers(-8, 8); }
example odd "file" { R = 3; C = 7; x = file("q.npy"); }
example odd "even" { R = 3; C = 8; x = file("q.npy"); }
example odd "short" { R = 3; C = 6; x = file("q.npy"); }
END
expect 0 "good" run odd.tgl --example "" --out q=q.npy --device cpu
expect 0 "good" run odd.tgl --example file --device cpu --out q=q2.npy
holds cmp -s q.npy q2.npy
expect 0 "good" run odd.tgl --example even --device cpu
expect 1 "E1176" run odd.tgl --example short --device cpu

# What one run writes another reads; the same seed gives the same numbers, on any number of threads.
expect 0 "good" run saxpy.tgl --out x=x.npy --out y=y.npy
expect 0 "good" run saxpy.tgl --out x=x2.npy --out y=y2.npy --seed 0 --threads 1
holds cmp -s x.npy x2.npy
holds cmp -s y.npy y2.npy
expect 0 "good" run saxpy.tgl --out x=x2.npy --seed 1 --threads 3
holds test "$(cmp -s x.npy x2.npy; echo $?)" = 1
expect 0 "good" run saxpy.tgl --arg x=x.npy --arg y=zeros --arg a=1.0 --out y=copy.npy
holds cmp -s x.npy copy.npy
expect 0 "N = 4096, .*a = -2" run saxpy.tgl --arg x=x.npy -D a=-2.0
expect 1 "E1201" run saxpy.tgl --arg x=none.npy
printf 'kernel one(x: in f32[], y: out f32[]) { y[] = x[] * 2; }\nexample one { x = 1.5; }\n' >one.tgl
expect 0 "^    3$" run one.tgl --out y=one.npy
expect 0 "^    6$" run one.tgl --arg x=one.npy
cp saxpy.tgl fake.npy
expect 1 "E1202" run saxpy.tgl --arg x=fake.npy
head -c 1000 x.npy >cut.npy
expect 1 "E1208" run saxpy.tgl --arg x=cut.npy
expect 1 "rank\|shape\|dimension" run rows.tgl --arg x=x.npy
expect 1 "'T' is bf16 by the command line, but f32" run rows.tgl -D T=bf16 --arg x=x.npy
expect 1 "'z'" run saxpy.tgl --arg z=1
expect 1 "<argument x>:1:8: error" run saxpy.tgl --arg 'x=normal('
expect 1 "'Q'" run saxpy.tgl -D Q=1
expect 1 "N" run saxpy.tgl --arg x=x.npy -D N=5

# Nothing to do, and too much.
expect 0 "y: f32\[0\]" run saxpy.tgl -D N=0
expect 0 "N = 1," run saxpy.tgl -D N=1
expect 1 "error" run saxpy.tgl -D N=-4
expect 1 "no memory for a tensor f32\[99999999999999\]" run saxpy.tgl -D N=99999999999999
expect 1 "error" run saxpy.tgl -D N=9223372036854775807

# JSON stands alone on standard output.
expect 0 '"kernel": "saxpy"' run saxpy.tgl --json --dump=all
if command -v python3 >/dev/null; then
	holds python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["checks"][0]["passed"] and d["values"]["N"] == "4096"' "$out"
	expect 0 verdict check saxpy.tgl --json
	holds python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert len(d) == 2 and d[0]["verdict"] == "good"' "$out"
	expect 0 cpu devices --json
	holds python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))[0]["name"] == "cpu"' "$out"
fi

# A wrong kernel is found, in files, folders and both ways to ask.
mkdir -p folder/deep
sed '1,8s/a \* x/a - x/' saxpy.tgl >folder/deep/wrong.tgl
cp saxpy.tgl folder/good.tgl
expect 1 "check y: WRONG" run folder/deep/wrong.tgl
holds grep -q 'elements are wrong; the worst is y\[' "$out"
expect 1 "2 good, 2 wrong, 0 failed" check folder
expect 1 "2 good, 2 wrong, 0 failed" check folder/good.tgl folder/deep
printf 'kernel broken(' >folder/broken.tgl
expect 1 "2 good, 2 wrong, 1 failed" check folder
rm folder/broken.tgl folder/deep/wrong.tgl
expect 0 "2 good, 0 wrong, 0 failed" check folder
expect 0 "1 good, 0 wrong, 0 failed" check folder --example ragged
expect 1 "there is no example 'nope' to check" check folder --example nope

# Kernels without an example run on what the command line says; what a kernel prints comes once.
cat >loose.tgl <<'END'
kernel scale<BLOCK = 64>(x: in f32[N], s: f32, y: out f32[N]) grid(p: cdiv(N, BLOCK)) {
    y[p * BLOCK +: BLOCK] = s * x[p * BLOCK +: BLOCK];
}
kernel roots(y: out f32[4]) grid(p: 1) {
    y[0 +: 4] = sqrt(arange(0, 4) as f32 - 2.0);
    print("hello", p);
}
kernel race(y: out i32[1]) grid(p: 4) { y[0] = p as i32; }
kernel stray(x: *f32, y: out f32[4]) grid(p: 1) { y[0 +: 4] = load(x + arange(0, 4) + 100000000); }
kernel claim(y: out i32[1]) grid(p: 4) {
    assert(p < 2, "p is large", p);
    y[0] = 1;
}
END
expect 0 "N = 100, BLOCK = 64, s = 2$" run loose.tgl scale --arg 'x=normal(0, 1)' -D N=100 -D s=2
expect 1 "dimension 'N' of kernel 'scale' has no value.*E0520" run loose.tgl scale -D s=2.0
expect 1 "E0520" build loose.tgl scale
refuse "scalar 's'"
expect 0 "kernel @scale" build loose.tgl scale -D N=100
expect 0 "kernel @scale" build loose.tgl scale -D N=100 -D s=1.0
expect 1 "nothing gives argument 's'.*E1174" run loose.tgl scale --arg 'x=normal(0, 1)' -D N=100
expect 0 "\[nan nan 0 1\]" run loose.tgl roots
holds test "$(grep -c hello "$out")" = 1
expect 0 "y: i32" run loose.tgl race
expect 1 "E1197" run loose.tgl race --sanitize
expect 1 "E1196" run loose.tgl stray --arg 'x=ones([4])' --sanitize
expect 1 "loose.tgl:[0-9]*:.*element 100000000 of 'x'.*E1196" run loose.tgl stray --arg 'x=ones([4])'
expect 1 "assertion failed in program [23]: p is large [23].*E1195" run loose.tgl claim

# Options of the passes reach every command.
expect 0 "// after simplify" run saxpy.tgl --dump=simplify
expect 0 "// after licm" build saxpy.tgl --dump=licm
expect 0 "simplify" build saxpy.tgl --time
expect 0 "check y: good" run saxpy.tgl --skip=simplify,licm --verify
expect 0 "3 good" check "$top/tests/semantics/eight_bits.tgl" fast_sums --device=simt:sm_80 --verify
expect 1 "E1001" check saxpy.tgl --only=nosuch
expect 1 "did you mean 'simplify'" build saxpy.tgl --stop-after=simplfy
# Numbers of the command line read as in the language: ten, or sixteen behind 0x.
expect 0 "N = 10,\|N = 10$" run saxpy.tgl -D N=010
expect 0 "N = 31" run saxpy.tgl -D N=0x1f
expect 0 "" check --seed=08 saxpy.tgl
finish
