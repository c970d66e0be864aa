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

# nest N OPEN MIDDLE CLOSE: OPEN N times, MIDDLE, CLOSE N times, in a kernel
nest() {
	awk -v n="$1" -v open="$2" -v middle="$3" -v close_="$4" 'BEGIN {
		print "kernel k(x: inout f32[N]) {"
		for (i = 0; i < n; i++) print open
		print middle
		for (i = 0; i < n; i++) print close_
		print "}\nexample k { N = 2; x = 0; }" }'
}

# Statements in statements: what returns is found once for each.
nest 400 '{' 'x[0] = 1;' '}' >nest.tgl
within 5 0 "x" run --device=cpu nest.tgl
nest 400 'if x[0] > 1 {' 'x[0] = 1; return;' '} else { x[1] = 1; }' >nest.tgl
within 5 0 "x" run --device=cpu nest.tgl
nest 400 'static if 2 > 1 {' 'x[0] = 1; return;' '} else { x[1] = 1; }' >nest.tgl
within 5 0 "x" run --device=cpu nest.tgl

# Operations are not counted by walking every trip of every loop.
nest 40 'for i in range(N) { if x[i] > 5 { x[i] = x[i] * 2;' '' '}}' >nest.tgl
within 5 0 "x" run --device=cpu nest.tgl

finish
