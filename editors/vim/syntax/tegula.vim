" Vim syntax file for Tegula's tile programs
if exists("b:current_syntax")
  finish
endif
syn keyword tegulaDeclaration kernel fn reference example expect import const let var
syn keyword tegulaControl for while if else return static range merge
syn keyword tegulaClause in out inout scratch fixed strided mut where grid tune bench as new
syn keyword tegulaType bf16 bool f16 f32 f4e2m1 f64 f8e4m3 f8e5m2 i16 i32 i4 i64 i8 u16 u32 u4 u64 u8 dtype
syn keyword tegulaConstant true false inf nan pi target
syn keyword tegulaOperation abs acos all any arange argmax argmin argsort asin assert atan atan2 atomic_add atomic_and
syn keyword tegulaOperation atomic_cas atomic_exchange atomic_max atomic_min atomic_or atomic_xor bitcast broadcast_to
syn keyword tegulaOperation cat cdiv ceil clamp clz cos cosh cumprod cumsum div dot dot_scaled erf exp exp2
syn keyword tegulaOperation expand_dims expm1 file flip floor floordiv fma full gather histogram inline_ptx integers
syn keyword tegulaOperation iota join load log log1p log2 max mean min normal num_programs ones permutation permute
syn keyword tegulaOperation philox popcount pow pow2ceil prefetch print prod program_id rand randint randn reduce
syn keyword tegulaOperation reshape roll round rsqrt scan scatter shift sigmoid sin sinh sort split sqrt static_assert
syn keyword tegulaOperation store sum tan tanh topk trans trunc umulhi uniform where xor_sum zeros
syn match tegulaNumber "\<\(0[xX][0-9a-fA-F_]\+\|0[bB][01_]\+\|0[oO][0-7_]\+\|\d[0-9_]*\(\.\d*\)\?\([eE][+-]\?\d\+\)\?\)\>"
syn region tegulaString start=+"+ skip=+\\.+ end=+"+ oneline
syn match tegulaComment "//.*$" contains=@Spell
syn region tegulaComment start="/\*" end="\*/" contains=@Spell
hi def link tegulaDeclaration Statement
hi def link tegulaControl Conditional
hi def link tegulaClause StorageClass
hi def link tegulaType Type
hi def link tegulaConstant Constant
hi def link tegulaOperation Function
hi def link tegulaNumber Number
hi def link tegulaString String
hi def link tegulaComment Comment
let b:current_syntax = "tegula"
