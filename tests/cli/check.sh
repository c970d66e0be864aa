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
expect 1 'there was no example to check' check more.tgl --device=cpu --example=own
finish
