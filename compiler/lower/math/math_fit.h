/* Polynomials of the functions in math*.c, the lowest power first, with the greatest error that each adds to its
 * function; made by tests/data/fit_gpu.py. */
#ifndef TEGULA_MATH_FIT_H
#define TEGULA_MATH_FIT_H

/* (e^r - 1 - r) / r^2: 2^-31.1 */
static const double expm1_fit_32[] = {
	0x1.0000000000000p-1, 0x1.5555540000000p-3, 0x1.5554f80000000p-5, 0x1.1112d40000000p-7,
	0x1.6d3a840000000p-10, 0x1.9e7cf20000000p-13,
};
/* (e^r - 1 - r) / r^2: 2^-68.1 */
static const double expm1_fit_64[] = {
	0x1.0000000000000p-1, 0x1.5555555555555p-3, 0x1.5555555555559p-5, 0x1.1111111111107p-7,
	0x1.6c16c16c14d6cp-10, 0x1.a01a01a01fcb7p-13, 0x1.a01a01adcccf7p-16, 0x1.71de3a408816ep-19,
	0x1.27e4cbf5b8e22p-22, 0x1.ae648e0596e8fp-26, 0x1.1f8b8a7356cd4p-29, 0x1.6137eeeb8714fp-33,
};
/* (log(1 + f) - f) / f^2: 2^-27.7 */
static const double log1p_fit_32[] = {
	-0x1.0000000000000p-1, 0x1.5555060000000p-2, -0x1.fffef80000000p-3, 0x1.99d0600000000p-3,
	-0x1.559c820000000p-3, 0x1.1ed3e80000000p-3, -0x1.f333c60000000p-4, 0x1.1e753c0000000p-3,
	-0x1.07bc7c0000000p-3,
};
/* (log2(1 + f) - f log2 e) / f^2: 2^-27.7 */
static const double log2_fit_32[] = {
	-0x1.7154760000000p-1, 0x1.ec70300000000p-2, -0x1.7153de0000000p-2, 0x1.279d720000000p-2,
	-0x1.ecd1600000000p-3, 0x1.9de54c0000000p-3, -0x1.6849f20000000p-3, 0x1.9ce0ba0000000p-3,
	-0x1.7beec20000000p-3,
};
/* (2 atanh(s) - 2 s) / s^3 in s^2: 2^-66.7 */
static const double atanh_fit_64[] = {
	0x1.5555555555555p-1, 0x1.9999999999e08p-2, 0x1.249249242a99fp-2, 0x1.c71c7259be96bp-3,
	0x1.745cddfa13c90p-3, 0x1.3b20b5a66ec5ap-3, 0x1.0f5be6a46fdbfp-3, 0x1.0f6b16739766ep-3,
};
/* (2 atanh(s) - 2 s - 2/3 s^3) / s^5 in s^2: 2^-36.8 */
static const double atanh_rest_fit_32[] = {
	0x1.999a000000000p-2, 0x1.24527a0000000p-2, 0x1.dfa3020000000p-3,
};
/* (2 atanh(s) - 2 s - 2/3 s^3) / s^5 in s^2: 2^-73.5 */
static const double atanh_rest_fit_64[] = {
	0x1.9999999999996p-2, 0x1.2492492493051p-2, 0x1.c71c71c57d36fp-3, 0x1.745d1833ceaf9p-3,
	0x1.3b1362532adb3p-3, 0x1.1120c4366928ap-3, 0x1.de3129abdda16p-4, 0x1.eb23dbf933b39p-4,
};
/* (sin r - r) / r^3 in r^2: 2^-28.0 */
static const double sin_fit_32[] = {
	-0x1.5555460000000p-3, 0x1.11077a0000000p-7, -0x1.9954a80000000p-13,
};
/* (cos r - 1 + r^2 / 2) / r^4 in r^2: 2^-33.1 */
static const double cos_fit_32[] = {
	0x1.55554a0000000p-5, -0x1.6c0c1a0000000p-10, 0x1.99e0ec0000000p-16,
};
/* (sin r - r) / r^3 in r^2: 2^-68.8 */
static const double sin_fit_64[] = {
	-0x1.5555555555555p-3, 0x1.111111111110bp-7, -0x1.a01a01a018aaep-13, 0x1.71de3a53350c7p-19,
	-0x1.ae6452927f9f1p-26, 0x1.61208efd161b2p-33, -0x1.aaa368e511ffap-41,
};
/* (cos r - 1 + r^2 / 2) / r^4 in r^2: 2^-75.2 */
static const double cos_fit_64[] = {
	0x1.5555555555555p-5, -0x1.6c16c16c16c10p-10, 0x1.a01a01a018db7p-16, -0x1.27e4fb75fa18ep-22,
	0x1.1eed8c9fe4d1bp-29, -0x1.939333fcc7113p-37, 0x1.aac3c00d34d2bp-45,
};
/* (tanh x - x) / x^3 in x^2, to 0.55: 2^-24.8 */
static const double tanh_fit_32[] = {
	-0x1.55545a0000000p-2, 0x1.10d0380000000p-3, -0x1.af991e0000000p-5, 0x1.0db0f40000000p-6,
};
/* (sinh x - x) / x^3 in x^2, to 1: 2^-31.5 */
static const double sinh_fit_32[] = {
	0x1.5555560000000p-3, 0x1.1110e20000000p-7, 0x1.a021560000000p-13, 0x1.75a6f40000000p-19,
};
/* (sinh x - x) / x^3 in x^2, to 1: 2^-73.6 */
static const double sinh_fit_64[] = {
	0x1.5555555555555p-3, 0x1.1111111111111p-7, 0x1.a01a01a019fbdp-13, 0x1.71de3a5574333p-19,
	0x1.ae645673da47ap-26, 0x1.61246b217b786p-33, 0x1.ae7556124c47cp-41, 0x1.9a7f73beb5711p-49,
};
/* (atan z - z) / z^3 in z^2, to 1: 2^-28.7 */
static const double atan_fit_32[] = {
	-0x1.5555400000000p-2, 0x1.9992680000000p-3, -0x1.24265a0000000p-3, 0x1.c0cbfe0000000p-4,
	-0x1.58c9540000000p-4, 0x1.dccd220000000p-5, -0x1.016dc00000000p-5, 0x1.6a01620000000p-7,
	-0x1.ddfe6e0000000p-10,
};
/* (atan z - z) / z^3 in z^2, to 1: 2^-57.7 */
static const double atan_fit_64[] = {
	-0x1.555555555552ap-2, 0x1.9999999995a73p-3, -0x1.2492492390a47p-3, 0x1.c71c7183cd1f4p-4,
	-0x1.745d11f512620p-4, 0x1.3b1369d154c65p-4, -0x1.110e6b5eead7bp-4, 0x1.e1bcddc208bdcp-5,
	-0x1.ae63da8ccf5e1p-5, 0x1.82ed2bebeac42p-5, -0x1.59d3ff4dea091p-5, 0x1.2c9016468929dp-5,
	-0x1.eb2fd24118611p-6, 0x1.69b9636d500a9p-6, -0x1.ca5d1292d452ep-7, 0x1.dbb19b5c50dbdp-8,
	-0x1.7e5115cdc2320p-9, 0x1.b9c4267c01d74p-11, -0x1.443b540e28296p-13, 0x1.c3fb4c06e29bep-17,
};
/* (asin z - z) / z^3 in z^2, to 1/2: 2^-27.6 */
static const double asin_fit_32[] = {
	0x1.5555cc0000000p-3, 0x1.3300d80000000p-4, 0x1.74972c0000000p-5, 0x1.8b3d680000000p-6,
	0x1.5a2dde0000000p-5,
};
/* (asin z - z) / z^3 in z^2, to 1/2: 2^-55.8 */
static const double asin_fit_64[] = {
	0x1.5555555555381p-3, 0x1.333333337044ep-4, 0x1.6db6db4158337p-5, 0x1.f1c72c961ba18p-6,
	0x1.6e89eb8e543dep-6, 0x1.1c6c645eb93cfp-6, 0x1.c6f3b28b61860p-7, 0x1.8f04dd89caadap-7,
	0x1.a996ca45c8370p-8, 0x1.4178ed47afac1p-6, -0x1.0c337badd1cddp-6, 0x1.063da876477b4p-5,
};
/* erf(x) / x - 1 in x^2, to 1: 2^-24.4 */
static const double erf_fit_32[] = {
	0x1.06eba20000000p-3, -0x1.8126700000000p-2, 0x1.ce08c80000000p-4, -0x1.b59efa0000000p-6,
	0x1.4235f80000000p-8, -0x1.27112c0000000p-11,
};
/* erf(x) / x - 1 in x^2, to 1: 2^-68.7 */
static const double erf_fit_64[] = {
	0x1.06eba8214db69p-3, -0x1.812746b0379e7p-2, 0x1.ce2f21a042bdep-4, -0x1.b82ce312889c2p-6,
	0x1.565bcd0e6518ap-8, -0x1.c02db3feeffbdp-11, 0x1.f9a326c2d5128p-14, -0x1.f4d25629b5e68p-17,
	0x1.b9e65188321f3p-20, -0x1.5f6d9c7f1ceffp-23, 0x1.fc43ec97de37ep-27, -0x1.4e63495f2099bp-30,
	0x1.7f16bccc7d64dp-34, -0x1.29e05971a3b9bp-38,
};
/* log2(1 - erf(a)) / a, 1 to 4: 2^-28.0 */
static const double erfc_fit_32[] = {
	-0x1.a0c80e0000000p+0, -0x1.d5a9c20000000p-1, -0x1.3694ac0000000p-3, 0x1.0d72420000000p-5,
	-0x1.2d532e0000000p-8, 0x1.3eaa420000000p-12,
};
/* (1 - erf(a)) e^(a^2) in 1/a - 0.58, 1 to 6.2: 2^-56.0 */
static const double erfc_fit_64[] = {
	0x1.27519b2b3ff57p-2, 0x1.979be75e2ea24p-2, -0x1.6c7de9a3dfbcfp-3, 0x1.3bae14f71d98ap-5,
	0x1.213f0e114037ep-5, -0x1.ea034cad248dep-5, 0x1.a4a4e921129f8p-5, -0x1.9d4f9bb75e547p-6,
	-0x1.5dc3312a1b4a7p-8, 0x1.ede2048c507c3p-6, -0x1.5d8dbb06ec89bp-5, 0x1.4abd1b0c91a28p-5,
	-0x1.8dd09d99e96edp-6, -0x1.2198d7bf27414p-9, 0x1.08aeca29b1f97p-5, -0x1.a21f235bd886dp-5,
	0x1.5a585cfa2e487p-5, -0x1.f64a2bb8cb0bdp-7,
};

#endif
