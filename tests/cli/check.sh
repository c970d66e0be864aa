# tegula check: the examples that stand in the files named, also those for kernels that a file imports, and no others.
. "$(dirname "$0")/expect"
mkdir -p own
cat >own/double.tgl <<'END'
kernel double<T: dtype = f32>(x: in T[N], y: out T[N]) grid(p: cdiv(N, 64)) { y[p * 64 +: 64] = 2 * x[p * 64 +: 64]; }
reference double { y[:] = x[:] + x[:]; }
example double "own" { N = 100; x = normal(0, 1); }
END
cat >more.tgl <<'END'
import "own/double.tgl";
example double "f16" { T = f16; N = 70; x = normal(0, 1); }
example double "large" bench { N = 1000; x = normal(0, 1); }
END
expect 0 '^double  *f16  *cpu  *y .* good$' check more.tgl --device=cpu
holds grep -q '^1 good, 0 wrong' "$out"
expect 0 '^double  *own ' check own --device=cpu
holds grep -q '^1 good, 0 wrong' "$out"
expect 0 '^2 good, 0 wrong, 0 failed' check . --device=cpu
expect 0 '"file": "more.tgl"' check more.tgl --device=cpu --json
expect 0 '^1 good' check more.tgl --device=cpu --example=f16
expect 1 "no device 'foo'" check more.tgl --device=cpu,foo
expect 1 "no device ''" check more.tgl --device=
expect 1 "there is no example 'own' to check" check more.tgl --device=cpu --example=own
expect 1 "there is no example 'own' to check" check more.tgl --example=own
# one kernel by its name
cat >own/pair.tgl <<'END2'
kernel one(x: in f32[8], y: out f32[8]) { y[:] = x[:]; }
example one { x = normal(0, 1); }
kernel other(x: in f32[8], y: out f32[8]) { y[:] = x[:] * 2; }
example other { x = normal(0, 1); }
expect other { warps == 1; }
expect one { warps == 1; }
END2
expect 0 '^other .* cpu ' check own/pair.tgl other
refuse '^one '
expect 0 '^1 good, 0 wrong, 0 failed, 1 without' check own/pair.tgl other
# facts of GPUs' code are none of what looks at values
expect 0 '^1 good, 0 wrong, 0 failed, 1 without' check own/pair.tgl other --device=simt:sm_90a
for with in --break-nan --sanitize; do
	expect 0 '^0 good, 0 wrong, 0 failed, 1 without' check own/pair.tgl other --device=simt:sm_90a $with
done
expect 1 "there is no kernel 'oter'; did you mean 'other'? there are 'one', 'other'$" check own/pair.tgl oter --device=cpu
expect 1 "cannot read 'oter.tgl'" check own/pair.tgl oter.tgl --device=cpu
# what no machine holds is said before a reference begins, with what to do
cat >own/large.tgl <<'END2'
kernel pairs(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, 256)) { y[p * 256 +: 256] = x[p * 256 +: 256]; }
reference pairs { y[:] = max(exp(x[:][:, new] * x[:][new, :]) + sum(x[:]), axis = 1); }
example pairs { N = 1000000; x = zeros; }
example pairs "few" { N = 100; x = zeros; }
END2
expect 1 "checking needs 7450.6 GiB .* choose another example by --example" check own/large.tgl --device=cpu
# what takes long comes after the others, and says so first
holds grep -q '^tegula: pairs on cpu takes about [0-9]* minutes here; --example=NAME checks one of the others' "$err"
holds test "$(awk '/^pairs/ { print $2 }' "$out" | head -1)" = few
holds test "$(grep -c 'takes about' "$err")" = 1
rm own/large.tgl
# a reference's loop over a dimension of extent 0 has no trip, and an index of one no error
cat >own/none.tgl <<'END2'
kernel mv(a: in f32[M, K], b: in f32[K], c: out f32[M]) grid(p: cdiv(M, 16)) {
    var acc = zeros([16]);
    for k in range(0, K, 16) { acc += sum(a[p * 16 +: 16, k +: 16] * b[k +: 16][new, :], axis = 1); }
    c[p * 16 +: 16] = acc + 1.0;
}
reference mv {
    let x = a[:, :];
    var s = full([M], 1.0);
    for k in range(K) { s += x[:, k] * b[k]; }
    for k in range(K - 1, -1, -1) { s += 0.0 * x[0, k]; }
    c[:] = s;
}
example mv { M = 20; K = 30; a = normal(0, 1); b = normal(0, 1); }
example mv "none" { M = 20; K = 0; a = zeros; b = zeros; }
END2
expect 0 '^2 good, 0 wrong, 0 failed, 0 without' check own/none.tgl --device=cpu
rm own/none.tgl
# an error of the source is said once, whatever the number of devices
echo 'kernel k(x: in f32[8], y: out f32[8]) { y[:] = z[:]; } example k { x = normal(0, 1); }' >wrong.tgl
expect 1 '7 failed' check wrong.tgl --device=simt
holds test "$(grep -c E0201 "$err")" = 1
# unknown names: the nearest, and what there is
expect 1 "did you mean 'sm_90a'? there are 'cpu', 'sm_75', .*'apple9'$" build own/pair.tgl --target=sm_90
expect 1 "did you mean 'simt:sm_90a'? there are 'cpu', .*'simt:sm_120a'$" check own/pair.tgl --device=simt:sm_90
expect 1 "did you mean 'other'? there are 'one', 'other'$" run own/pair.tgl othr
expect 1 "there is no kernel 'othr'; did you mean 'other'?" inspect own/pair.tgl othr
expect 1 "did you mean 'f16'? there are 'own', 'f16', 'large'$" run more.tgl double --example=f6
finish
