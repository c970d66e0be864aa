# On a real NVIDIA GPU: every kernel of dsl_examples at its examples' sizes under CUDA's compute-sanitizer, a process a tool.
. "$(dirname "$0")/../cli/expect"
. "$top/tests/gpu/present"
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
command -v compute-sanitizer >/dev/null || { echo 'SKIP: there is no compute-sanitizer'; exit 77; }

# It refuses some machines.
compute-sanitizer --tool memcheck "$tegula" run "$top/dsl_examples/saxpy.tgl" --device=cuda >said 2>&1
if grep -q 'Device not supported' said; then echo "SKIP: compute-sanitizer: $(grep 'not supported' said)"; exit 77; fi

# It finds what is planted.
cat >wild.tgl <<'END'
kernel wild(x: *mut f32, y: out f32[4]) grid(p: 4) { store(x + 1000000 + p, 1.0); y[p] = 1.0; }
END
compute-sanitizer --tool memcheck --error-exitcode 9 "$tegula" run wild.tgl --arg 'x=zeros([4])' --device=cuda >said 2>&1
holds test $? = 9

# The four side by side: most of their time is the host's.
tools='memcheck racecheck synccheck initcheck'
for tool in $tools; do
	(
		compute-sanitizer --tool $tool --error-exitcode 9 "$tegula" check "$top/dsl_examples" --device=cuda >said.$tool 2>&1
		echo $? >rc.$tool
	) &
done
wait
for tool in $tools; do
	ran=$((ran + 1))
	grep -E '^========= (ERROR|RACECHECK) SUMMARY' said.$tool | sed "s/^/$tool: /"
	if [ "$(cat rc.$tool)" != 0 ]; then
		fail "$tool: exit $(cat rc.$tool)"
		grep -E '^========= |WRONG|FAILED' said.$tool | head -n 20
	fi
done
finish
