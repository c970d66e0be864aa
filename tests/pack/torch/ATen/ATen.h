/* As much of PyTorch's C++ as what `tegula pack --torch` writes needs to be compiled without PyTorch (tests/pack/run); with it,
 * tests/python/test_pack.py runs it. */
#include <cstdint>
#include <initializer_list>
#include <string>
#include <tuple>
#include <vector>

namespace c10 {
struct SymBool {
	bool expect_true(const char *, int64_t) const { return true; }
};
struct Value {
	explicit operator bool() const { return true; }
	int64_t operator*() const { return n; }
	int64_t n;
};
struct SymInt {
	SymInt(int64_t n) : n(n) {}
	SymBool sym_eq(const SymInt &) const { return SymBool(); }
	Value maybe_as_int() const { return Value{n}; }
	int64_t guard_int(const char *, int64_t) const { return n; }
	int64_t expect_int() const { return n; }
	int64_t n;
};
inline SymInt operator+(const SymInt &a, int64_t b) { return a.n + b; }
inline SymInt operator*(const SymInt &a, int64_t b) { return a.n * b; }
inline SymInt operator/(const SymInt &a, int64_t b) { return a.n / b; }
struct Device {
	int index() const { return 0; }
	std::string str() const { return "cuda:0"; }
};
inline bool operator==(Device, Device) { return true; }
struct GradMode {
	static bool is_enabled() { return false; }
};
struct DeviceGuard {
	explicit DeviceGuard(Device) {}
};
}

namespace at {
enum ScalarType : int;
}
namespace c10 {
inline const char *toString(at::ScalarType) { return "Float"; }
}
namespace at {
enum ScalarType : int { kBool, kChar, kShort, kInt, kLong, kByte, kUInt16, kUInt32, kUInt64, kHalf, kBFloat16, kFloat, kDouble,
	kFloat8_e4m3fn, kFloat8_e5m2 };
enum class Tag { pt2_compliant_tag };
struct Half {
	Half(double) : x(0) {}
	uint16_t x;
};
typedef Half BFloat16;
struct Float8_e4m3fn {
	Float8_e4m3fn(float) : x(0) {}
	uint8_t x;
};
typedef Float8_e4m3fn Float8_e5m2;
struct Strides {
	const int64_t *data() const { return nullptr; }
};
struct Options {
	Options dtype(ScalarType) const { return *this; }
};
struct TensorImpl {
	void bump_version() const {}
};
struct Tensor {
	Tensor resolve_neg() const { return *this; }
	bool is_neg() const { return false; }
	bool requires_grad() const { return false; }
	int64_t stride(int) const { return 1; }
	const TensorImpl *unsafeGetTensorImpl() const { static const TensorImpl impl = TensorImpl(); return &impl; }
	int64_t dim() const { return 0; }
	ScalarType scalar_type() const { return kFloat; }
	c10::SymInt sym_size(int) const { return 0; }
	c10::Device device() const { return c10::Device(); }
	Tensor contiguous() const { return *this; }
	bool is_contiguous() const { return true; }
	const void *const_data_ptr() const { return nullptr; }
	void *data_ptr() const { return nullptr; }
	Strides strides() const { return Strides(); }
	Options options() const { return Options(); }
};
inline Tensor empty_symint(std::initializer_list<c10::SymInt>, Options) { return Tensor(); }
}

template <class... T> inline void stub_check(bool, const T &...) {}
#define TORCH_CHECK(...) stub_check(__VA_ARGS__)
