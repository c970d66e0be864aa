/* ---- what all operators of PyTorch share: the same text in every NAME_torch.cc, in an unnamed namespace ----
 *
 * Messages are made without streams, which fail in a library with a libstdc++ of its own beside PyTorch's. libtorch_cuda is asked
 * by dlopen, as Python's import does not make its symbols global. */

inline void *
stream_of(const at::Tensor &x)
{
	typedef int32_t Current(int32_t, void **);
	static void *const lib = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
	static Current *const current = (Current *)dlsym(lib ? lib : RTLD_DEFAULT, "aoti_torch_get_current_cuda_stream");
	void *stream = nullptr;
	TORCH_CHECK(current && current(x.device().index(), &stream) == 0, "this PyTorch has no CUDA");
	return stream;
}

inline void
check_tensor(const char *what, const at::Tensor &x, const at::Tensor &first, int rank, at::ScalarType type, const char *dtype)
{
	TORCH_CHECK(x.device() == first.device(),
	    std::string(what) + "on " + x.device().str() + ", and the first tensor on " + first.device().str());
	TORCH_CHECK(x.dim() == rank && x.scalar_type() == type,
	    std::string(what) + std::to_string(x.dim()) + "-dimensional " + c10::toString(x.scalar_type()) + "; it takes " +
	    std::to_string(rank) + " dimensions of " + dtype);
}

/* A tensor that the kernel changes: in its own memory (the dispatcher resolves is_neg()), and without a gradient of the change. */
inline void
check_changed(const char *what, const at::Tensor &x, bool is_strided)
{
	TORCH_CHECK(is_strided || x.is_contiguous(), std::string(what) + "changed, and not contiguous");
	TORCH_CHECK(!(c10::GradMode::is_enabled() && x.requires_grad()),
	    std::string(what) + "changed in place and requires a gradient, and the operator has none: call it under torch.no_grad()");
}

inline std::string
extent_text(const c10::SymInt &n)
{
	const auto value = n.maybe_as_int();
	return value ? std::to_string(*value) : std::string("a symbol");
}

inline void
check_extent(const char *what, const c10::SymInt &got, const c10::SymInt &want)
{
	TORCH_CHECK(got.sym_eq(want).expect_true(__FILE__, __LINE__),
	    std::string(what) + extent_text(got) + ", and must be " + extent_text(want));
}

template <class T> inline void
check_range(const char *what, int64_t v, const char *dtype)
{
	TORCH_CHECK((int64_t)(T)v == v && (v >= 0 || (T)-1 < (T)1),
	    std::string(what) + std::to_string(v) + ", which is out of the range of " + dtype);
}

template <class T> inline auto
bits_of(double v)
{
	return T(v).x;
}
