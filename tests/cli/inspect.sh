# inspect, and the facts of expect blocks: figures of code for a GPU, with no GPU.
. "$(dirname "$0")/expect"
cp "$top/tests/cli/facts/"*.tgl "$top/tests/cli/expect_fact.tgl" "$top/dsl_examples/matmul.tgl" "$top/dsl_examples/transpose.tgl" .

expect 0 "read x *f32\[256\] *1 access of 16 bytes a thread, 16 of 16 sectors" inspect expect_wrong.tgl
expect 0 "sm_75: 2 warps, 0 bytes" inspect expect_wrong.tgl --target=sm_75
expect 0 "dot 128x128x64 m16n8k16.bf16" inspect matmul.tgl --example large
expect 0 "get *bf16\[64, 128\] *ldmatrix.trans" inspect matmul.tgl --example large
expect 0 "convert .*through shared memory; into shared memory" inspect transpose.tgl --example large
expect 0 "4 blocks of a multiprocessor asked for" inspect held.tgl norm
expect 0 "8 blocks of a multiprocessor asked for" inspect held.tgl columns
expect 0 "16 blocks of a multiprocessor asked for" inspect held.tgl columns -D warps=2 -D BR=16
expect 0 '"blocks_asked": 4' inspect held.tgl norm --json
expect 0 "minnctapersm 4" build held.tgl norm --target=sm_90a --emit=ptx
for k in pair waves; do
	expect 0 "$k for sm_90a: 8 warps" inspect held.tgl $k
	refuse "asked for"
done
expect 0 '"bank_conflicts": 0' inspect expect_wrong.tgl --json
expect 1 "there is no kernel 'nothing'" inspect expect_wrong.tgl nothing
expect 1 "no target is called 'sm_1'" inspect expect_wrong.tgl --target=sm_1
expect 1 "vector(x) == 16 *good" check expect_wrong.tgl
expect 1 "warps >= 8 *WRONG: it is 2" check expect_wrong.tgl
expect 0 "1 good, 0 wrong" check --device cpu expect_wrong.tgl
expect 1 "there is no fact 'speed'; expected vector(x)" check expect_fact.tgl
expect 1 "there is no fact 'width' of a parameter" check expect_fact.tgl
expect 1 "the kernel does not access 'z'" check expect_fact.tgl
finish
