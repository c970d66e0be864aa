/* The binary interface of DLPack 1.3 (https://dmlc.github.io/dlpack/latest/c_api.html), as far as it is used here: how
 * array libraries describe memory to each other, and the table of functions that a type may carry beside it. */
#ifndef TEGULA_DLPACK_H
#define TEGULA_DLPACK_H

#include <stdint.h>

typedef enum DlDeviceType { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 } DlDeviceType;

typedef enum DlCode {
	DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6,
	DL_F8E4M3FN = 10, DL_F8E5M2 = 12, DL_F4E2M1FN = 17,
} DlCode;

enum { DL_READ_ONLY = 1, DL_MAJOR = 1 };

typedef struct DlDevice {
	int32_t type, id;
} DlDevice;

typedef struct DlType {
	uint8_t code, bits;
	uint16_t lanes;
} DlType;

typedef struct DlTensor {
	void *data;
	DlDevice device;
	int32_t ndim;
	DlType dtype;
	int64_t *shape, *strides;       /* strides in elements; NULL: row-major */
	uint64_t byte_offset;
} DlTensor;

/* In a capsule "dltensor", */
typedef struct DlManaged DlManaged;
struct DlManaged {
	DlTensor tensor;
	void *owner;
	void (*deleter)(DlManaged *self);
};

typedef struct DlVersion {
	uint32_t major, minor;
} DlVersion;

/* and since version 1 in one "dltensor_versioned". */
typedef struct DlVersioned DlVersioned;
struct DlVersioned {
	DlVersion version;
	void *owner;
	void (*deleter)(DlVersioned *self);
	uint64_t flags;
	DlTensor tensor;
};

/* In a capsule "dlpack_exchange_api", the type's attribute __dlpack_c_exchange_api__.  Functions return 0 or, with Python's
 * error set, -1. */
typedef struct DlExchange {
	DlVersion version;
	struct DlExchange *older;
	int (*allocate)(DlTensor *like, DlVersioned **out, void *user,
	    void (*fail)(void *user, const char *kind, const char *text));
	int (*from_object)(void *object, DlVersioned **out);
	int (*to_object)(DlVersioned *tensor, void **object);
	int (*view_object)(void *object, DlTensor *out); /* may be NULL */
	int (*current_stream)(int32_t type, int32_t id, void **out);
} DlExchange;

#endif
