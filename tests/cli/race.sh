#!/bin/sh
# race: which examples, targets and schedules it runs, and how it says what it found.
. "$(dirname "$0")/expect"
export TEGULA_CACHE=off

cat >k.tgl <<'END'
kernel twice(x: in f32[N], y: out f32[N]) grid(i: cdiv(N, 64)) { y[i * 64 +: 64] = x[i * 64 +: 64] * 2; }
reference twice { y[:] = x[:] * 2; }
example twice { N = 100; x = normal(0, 1); }
example twice "more" { N = 200; x = normal(0, 1); }
example twice "large" bench { N = 100000000; x = normal(0, 1); }
kernel all(y: out i32[64]) grid(i: 3) { y[0 +: 64] = full([64], i as i32); }
example all { }
END
expect 1 'E1402' race k.tgl
expect 0 '^14 run, 0 with a report$' race k.tgl twice
expect 0 '^twice *more *sm_80 *2 schedules: clean$' race k.tgl twice --example=more --target=sm_80 --schedules=2
expect 0 '^1 run, 0' race k.tgl twice --example=more --target=sm_80 --schedules=2
expect 1 "program 1, warp 0, lane 0 writes it here" race k.tgl all --target=sm_90a --threads=1
expect 1 "no 'twice' *$\|has no kernel 'thrice'" race k.tgl thrice
expect 1 "no device\|cannot be opened\|no target" race k.tgl twice --target=sm_70
expect 2 'schedules takes a number from 1' race k.tgl --schedules=0
expect 0 '"verdict": "clean"' race k.tgl twice --target=sm_80 --json
expect 1 '"code": "E1402"' race k.tgl all --target=sm_80 --json

expect 0 '^twice .*clean$' race k.tgl twice -D N=0 --example=more --target=sm_80
refuse W1402

# tile IR by hand
"$tegula" race k.tgl twice --example=more --target=sm_80 --schedules=1 --dump=barrier | sed -n '/^file/,/^}/p' >k.tir
expect 0 'clean' race k.tgl twice --example=more --target=sm_80 --ir=k.tir
sed 's/@twice/@thrice/' k.tir >other.tir
expect 1 "'other.tir' has no kernel 'twice'" race k.tgl twice --target=sm_80 --ir=other.tir
sed 's/%x/%z/g' k.tir >stranger.tir
expect 1 "kernel 'twice' has no parameter or dimension 'z'" race k.tgl twice --target=sm_80 --ir=stranger.tir
cat >typed.tgl <<'END'
kernel typed<T: dtype = f32>(x: in T[N], y: out T[N]) grid(i: N) { y[i] = x[i]; }
example typed { N = 8; x = arange; }
example typed "f16" { T = f16; N = 8; x = arange; }
example typed "f64" { T = f64; N = 8; x = arange; }
example typed "i8" { T = i8; N = 8; x = arange; }
END
"$tegula" build --emit=tir typed.tgl >typed.tir
expect 1 "'x' has elements of f32, but was given f16 .E0524" check typed.tgl --device=cpu --ir=typed.tir
expect 1 "'x' has elements of f32, but was given i8 .E0524" check typed.tgl --device=cpu --ir=typed.tir
expect 1 "cannot read 'none.tir'" race k.tgl twice --target=sm_80 --ir=none.tir
finish
