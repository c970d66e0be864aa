/* The binary interface of XLA's foreign functions (https://openxla.org/xla/custom_call), as far as it is used here: what a
 * handler is called with.  Structures grow at their ends. */
#ifndef TEGULA_XLA_H
#define TEGULA_XLA_H

#include <stddef.h>
#include <stdint.h>

typedef struct XlaExtension {
	size_t size;
	int type;                       /* 1: XlaMetadataExtension */
	struct XlaExtension *next;
} XlaExtension;

typedef struct XlaVersion {
	size_t size;
	XlaExtension *extension;
	int major, minor;
} XlaVersion;

typedef struct XlaMetadata {
	size_t size;
	XlaVersion version;
	uint32_t traits;
} XlaMetadata;

typedef struct XlaMetadataExtension {
	XlaExtension base;
	XlaMetadata *metadata;
} XlaMetadataExtension;

typedef struct XlaError XlaError;
typedef struct XlaContext XlaContext;

typedef struct XlaErrorCreate {
	size_t size;
	XlaExtension *extension;
	const char *message;
	int code;                       /* 3: an argument, 13: internal */
} XlaErrorCreate;

typedef struct XlaStreamGet {
	size_t size;
	XlaExtension *extension;
	XlaContext *context;
	void *stream;
} XlaStreamGet;

typedef struct XlaApi {
	size_t size;
	XlaExtension *extension;
	XlaVersion version;
	const void *internal;
	XlaError *(*error_create)(XlaErrorCreate *);
	void *error_message, *error_destroy, *handler_register;
	XlaError *(*stream_get)(XlaStreamGet *);
} XlaApi;

typedef struct XlaBuffer {
	size_t size;
	XlaExtension *extension;
	int dtype;
	void *data;
	int64_t rank, *dim;
} XlaBuffer;

typedef struct XlaList {                /* of arguments or results: all buffers */
	size_t size;
	XlaExtension *extension;
	int64_t n;
	int *type;
	void **at;
} XlaList;

typedef struct XlaSpan {
	const char *at;
	size_t n;
} XlaSpan;

typedef struct XlaAttrs {
	size_t size;
	XlaExtension *extension;
	int64_t n;
	int *type;                      /* 4: a string */
	XlaSpan **name;
	void **at;
} XlaAttrs;

enum { XLA_EXECUTE = 3, XLA_STRING = 4, XLA_METADATA = 1 };

typedef struct XlaFrame {
	size_t size;
	XlaExtension *extension;
	const XlaApi *api;
	XlaContext *context;
	int stage;
	XlaList args, rets;
	XlaAttrs attrs;
} XlaFrame;

#endif
