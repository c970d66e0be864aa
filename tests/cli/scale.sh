# What a command takes grows with the size of its input, not with its square or worse: generated files, each done within
# a limit of processor time that is ten times or more what it takes.
. "$(dirname "$0")/expect"

# within SECONDS STATUS PATTERN ARGUMENT...
within() {
	seconds=$1
	shift
	soft=$(ulimit -S -t)
	ulimit -S -t "$seconds"
	expect "$@"
	ulimit -S -t "$soft"
}

# nest N OPEN MIDDLE CLOSE: OPEN N times, MIDDLE, CLOSE N times, in a kernel with a variable n
nest() {
	awk -v n="$1" -v open="$2" -v middle="$3" -v close_="$4" 'BEGIN {
		print "kernel k(x: inout f32[N]) { var n = 0;"
		for (i = 0; i < n; i++) print open
		print middle
		for (i = 0; i < n; i++) print close_
		print "x[0] = n as f32; }\nexample k { N = 2; x = 0; }" }'
}

# Statements in statements: what returns is found once for each.
nest 400 '{' 'n = 1;' '}' >nest.tgl
within 5 0 "x" run --device=cpu nest.tgl
nest 400 'if x[0] > 1 {' 'n = 1;' '} else { n = 2; }' >nest.tgl
within 5 0 "x" run --device=cpu nest.tgl
nest 400 'static if 2 > 1 {' 'n = 1;' '} else { n = 2; }' >nest.tgl
within 5 0 "x" run --device=cpu nest.tgl

# Operations are not counted by walking every trip of every loop.
nest 40 'for i in range(N) { if x[i] > 5 { x[i] *= 2;' '' '}}' >nest.tgl
within 5 0 "x" run --device=cpu nest.tgl

# What is known of carried values: the rounds of nested loops add up.
for loop in 'while m < 1' 'for i in range(N)'; do
	nest 32 "{ var m = 0; $loop {" 'n += 1;' 'm += 1; } n += m; }' >nest.tgl
	within 4 0 "entry" build --target=sm_90a --emit=ptx nest.tgl
done

# Sines by the hundred are calls of one function: lines of PTX, not blocks of them.
cat >sines.tgl <<'END'
kernel sines<B = 256, K = 8>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) {
    let v = x[p * B +: B];
    var a = v;
    static for i in range(K) { a = a + sin(v * (i + 1)); }
    y[p * B +: B] = a;
}
example sines { N = 1000; x = normal(0, 0.1); }
END
within 10 0 "sin_f32x8" build --target=sm_90a --emit=ptx -D K=256 sines.tgl
holds test "$(wc -l <"$out")" -lt 20000

# Many kernels, their references and examples, functions and names.
awk 'BEGIN { for (i = 0; i < 10000; i++) {
	printf "fn f%d(x) => x + %d;\nkernel k%d(x: inout i32[N]) grid(i: N) { x[i] = f%d(x[i]); }\n", i, i, i, i
	printf "reference k%d { x[:] = x[:] + %d; }\nexample k%d { N = 2; x = 1; }\n", i, i, i } }' >many.tgl
within 20 0 "^kernel @k9999" build many.tgl
awk 'BEGIN { print "kernel k(x: inout i32[N]) grid(i: N) { let a0 = x[i];"
	for (i = 0; i < 50000; i++) printf "let a%d = a%d + a%d;\n", i + 1, i, i
	print "x[i] = a" i "; }\nexample k { N = 2; x = arange; }" }' >many.tgl
within 10 0 "a49999" build many.tgl

# What cannot be unrolled is refused before it is.
for n in 1000000000 -9223372036854775807; do
	cat >unroll.tgl <<END
kernel k(x: inout i32[N]) { var a = 0; static for i in range(0, $n, $n / 1000000000) { a += 1; } x[0] = a; }
example k { N = 2; x = 0; }
END
	within 1 1 "E0405" build unroll.tgl
done

finish
