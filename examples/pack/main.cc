// A class over a pack, in C++: opened once, errors as exceptions.
#include "softmax.h"

#include <cstdio>
#include <stdexcept>

class Kernels {
public:
	Kernels() : cx(softmax_open()) {}
	~Kernels() { softmax_close(&cx); }
	Kernels(const Kernels &) = delete;
	Kernels &operator=(const Kernels &) = delete;

	void softmax(void *stream, const float *x, float *y, int64_t rows, int64_t columns)
	{
		if (::softmax(cx, stream, x, y, rows, columns) != TGP_OK)
			throw std::runtime_error(softmax_error(cx));
	}

private:
	TgpContext *cx;
};

int
main()
{
	try {
		Kernels k;
		k.softmax(nullptr, nullptr, nullptr, 32, 1000);
	} catch (const std::runtime_error &e) {
		std::printf("not launched: %s\n", e.what());    // this thread has no CUDA context
	}
	return 0;
}
