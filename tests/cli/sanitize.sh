# --sanitize: each fault with the line, the program and the tensor's name, and no fault where there is none.
. "$(dirname "$0")/expect"
cp "$top/tests/cli/saxpy.tgl" .

cat >faults.tgl <<'END'
kernel stray(x: *f32, y: out f32[4]) grid(p: 1) { y[0 +: 4] = load(x + arange(0, 4) + 1); }
kernel wild(x: *mut f32, y: out f32[1]) grid(p: 2) { store(x + p + 3, 1.0); y[0] = 1.0; }
kernel race(y: out i32[1]) grid(p: 4) { y[0] = p as i32; }
kernel peek(x: inout i32[4], y: out i32[4]) grid(p: 4) {
    x[p] = p as i32;
    y[p] = x[(p + 1) % 4];
}
kernel early(y: out f32[4], s: scratch f32[4]) grid(p: 1) { y[0 +: 4] = s[0 +: 4]; }
kernel half(y: out f32[8]) grid(p: 1) { y[0 +: 4] = y[4 +: 4]; }
kernel added(y: out i32[1] = 0) grid(p: 4) { atomic_add(y[0], 1); }
kernel mixed(y: out i32[1] = 0) grid(p: 4) { if p == 0 { y[0] = 1; } else { atomic_add(y[0], 1); } }
kernel own(y: out i32[4]) grid(p: 4) {
    y[p] = p as i32;
    y[p] += 1;
}
kernel masked(x: *f32, y: out f32[4]) grid(p: 1) {
    let i = arange(0, 8);
    y[0 +: 4] = sum(load(x + i, i < 4)) + zeros([4]);
}
END
expect 1 "^faults.tgl:1:63: error: program 0 reads element 4 of 'x' .*elements 0 to 3 .E1196" \
    run faults.tgl stray --arg 'x=ones([4])' --sanitize
expect 1 "^faults.tgl:2:54: error: program 1 stores to element 4 of 'x' .*elements 0 to 3 .E1196" \
    run faults.tgl wild --arg 'x=zeros([4])' --sanitize
expect 1 "^faults.tgl:3:41: error: program [0-3] stores to element 0 of 'y', which program [0-3] stored to.*E1197" \
    run faults.tgl race --sanitize
expect 1 "^faults.tgl:[56]:.*: error: program [0-3] .*of 'x', which program [0-3] .*E1197" \
    run faults.tgl peek --arg x=zeros --sanitize
expect 1 "^faults.tgl:8:.*: error: program 0 reads element 0 of 's', which nothing has written yet .E1198" \
    run faults.tgl early --sanitize
expect 1 "^faults.tgl:9:.*: error: program 0 reads element 4 of 'y', which nothing has written yet .E1198" \
    run faults.tgl half --sanitize
expect 1 "of 'y', which program [0-3] .*E1197" run faults.tgl mixed --sanitize

# What is right stays quiet, on any number of threads.
for threads in 1 3; do
	expect 0 "^    \[4\]" run faults.tgl added --sanitize --threads $threads
	expect 0 "^    \[1 2 3 4\]" run faults.tgl own --sanitize --threads $threads
	expect 0 "^    \[4 4 4 4\]" run faults.tgl masked --arg 'x=ones([4])' --sanitize --threads $threads
	expect 0 "check y: good" run saxpy.tgl --sanitize --threads $threads
done
expect 0 " good, 0 wrong, 0 failed" check saxpy.tgl --sanitize
for f in softmax histogram matmul_split_k attention vector_add_pointers; do
	expect 0 "good" run "$top/dsl_examples/$f.tgl" --sanitize
done
expect 1 "E1197" run faults.tgl race --sanitize --json
finish
