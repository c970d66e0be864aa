# What is wrong with the command line itself: exit 2, and the nearest name offered.
. "$(dirname "$0")/expect"
cp "$top/tests/cli/saxpy.tgl" "$top/tests/cli/two.tgl" .

expect 2 "no command 'rnu'; did you mean 'run'" rnu saxpy.tgl
expect 2 "no command 'zzzzzz'; 'tegula help' lists them" zzzzzz
expect 2 "no command 'rn'; did you mean 'run'" help rn
expect 2 "did you mean '--version'" --versoin
expect 2 "no option '-x'; see 'tegula help'" -x
expect 2 "'run' has no option '--exmaple'; did you mean '--example'" run saxpy.tgl --exmaple x
expect 2 "'fmt' has no option '--device'" fmt --device cpu saxpy.tgl
expect 2 "expected: tegula run FILE \[KERNEL\]" run
expect 2 "expected: tegula check FILE" check
expect 2 "expected: tegula opt FILE.tir" opt
expect 1 "tegula build --emit=tir. makes that of a .tgl file" opt saxpy.tgl
expect 2 "'c' is one word too many" run saxpy.tgl saxpy c
expect 2 "'x' is one word too many; expected: tegula ops$" ops x
expect 2 "needs a value: NAME=VALUE" run saxpy.tgl -D
expect 2 "takes NAME=VALUE, found 'N'" run saxpy.tgl -D N
expect 2 "takes NAME=VALUE, found '=3'" run saxpy.tgl -D =3
expect 2 "a number, true, false or a dtype, found 'abc'" run saxpy.tgl -D N=abc
expect 2 "a number, true, false or a dtype, found ''" build saxpy.tgl -D N=
expect 2 "-D N: 1e400 is too large for f64; write inf for infinity" run saxpy.tgl -D N=1e400
expect 2 "-D N: 99999999999999999999 is too large for 64 bits; a float has a point" run saxpy.tgl -D N=99999999999999999999
expect 2 "-D N: -9223372036854775809 is too large for 64 bits" run saxpy.tgl -D N=-9223372036854775809
expect 2 "-D N: -1e400 is too large for f64" build saxpy.tgl -D N=-1e400
expect 2 "takes no value" run saxpy.tgl --sanitize=yes
expect 2 "whole number from 0 on, found '-1'" run saxpy.tgl --threads -1
expect 2 "whole number from 0 on, found '1x'" run saxpy.tgl --seed 1x
expect 2 "whole number from 0 on, found ''" run saxpy.tgl --seed=
expect 2 "whole number up to 9223372036854775807, found '99999999999999999999'" check saxpy.tgl --seed=99999999999999999999
expect 2 "whole number from 0 on" build saxpy.tgl --max-errors=many
expect 2 "always, never or auto" run saxpy.tgl --color=blue
expect 2 "say which with --target" build --emit=ptx saxpy.tgl
expect 2 "takes ast, tir.*found 'pxt'" build --emit=pxt saxpy.tgl
expect 2 "bash and zsh, not for 'fish'" completion fish
expect 2 "has 2 kernels: name one of doubled, halved" run two.tgl
expect 2 "has no tensor 'q'" run saxpy.tgl --out q=q.npy
expect 2 "has no tensor 'a'" run saxpy.tgl --out a=q.npy
holds test ! -e q.npy
expect 2 "Usage: tegula COMMAND"

# A pack of several files reads all before it compiles one.
expect 1 "cannot read 'scale'" pack saxpy.tgl scale -o packed
holds test ! -e packed
# nor one that it could not write.
expect 1 "cannot write into 'two.tgl': it is a file, no folder$" pack saxpy.tgl -o two.tgl
refuse "forms"

# `--` ends the options; values may stand apart or joined.
cp saxpy.tgl ./-odd.tgl
expect 0 "check y: good" run -- -odd.tgl
cp saxpy.tgl 'a "b".tgl'
expect 0 "file.1 .a 'b'.tgl.$" build --target=sm_80 --emit=ptx 'a "b".tgl'
expect 0 "N = 7," run saxpy.tgl -DN=7
expect 0 "N = 7," run saxpy.tgl -D N=7
expect 0 "N = 7," run saxpy.tgl --define=N=7
expect 1 "'N' is given twice" run -D N=7 saxpy.tgl -D N=8
finish
