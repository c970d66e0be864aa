/* See ATen/ATen.h beside this. */
struct StubLibrary {
	void def(const char *, std::vector<at::Tag>) {}
	template <class F> void impl(const char *, F *) {}
};
#define TORCH_LIBRARY_FRAGMENT(name, m) void stub_fragment_##name(StubLibrary &m); void stub_fragment_##name(StubLibrary &m)
#define TORCH_LIBRARY_IMPL(name, key, m) void stub_##key##_##name(StubLibrary &m); void stub_##key##_##name(StubLibrary &m)
