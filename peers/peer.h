/* The C interface between `tessera bench` and a peer library.
 *
 * Each peer is a shared module `libtessera_peer_<name>.so` that is opened at run time, so that no
 * peer is ever linked into the product. A module exports the functions below. Tensors cross the
 * border in one canonical layout whatever the library prefers inside; converting happens in
 * set/get, outside the timed call. One thread at a time may use a module. */
#ifndef TESSERA_PEERS_PEER_H_
#define TESSERA_PEERS_PEER_H_

#include <stddef.h>
#include <stdint.h>

#define TESSERA_PEER_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_PEER_ABI 2

/* One operation with its buffers, prepared for repeated calls. */
typedef struct TesseraPeerOp TesseraPeerOp;

/* TESSERA_PEER_ABI of the module. */
TESSERA_PEER_EXPORT int tessera_peer_abi(void);

/* E.g. "OpenBLAS 0.3.21 neoversev1"; what the library does outside the timed call although the
 * operation does not allow it follows in parentheses. NULL when the module opens its library at run
 * time and does not find it. */
TESSERA_PEER_EXPORT const char* tessera_peer_version(void);

/* Prepares the operation `spec` (as `tessera bench --op`, e.g. "matmul:M=64,N=64,K=64") for
 * `threads` threads. Returns NULL and writes a reason when the library has no such operation. */
TESSERA_PEER_EXPORT TesseraPeerOp* tessera_peer_create(const char* spec, int threads, char* reason,
                                                       size_t reason_bytes);

/* Copies input `index` in canonical row-major f32 layout. The call that completes the set of
 * inputs, and every later one, also packs constant weights. 0 on success. */
TESSERA_PEER_EXPORT int tessera_peer_set_input(TesseraPeerOp* op, int index, const float* data,
                                               int64_t count);

/* One call, complete on return; 0 on success. Needs all inputs. */
TESSERA_PEER_EXPORT int tessera_peer_run(TesseraPeerOp* op);

/* Seconds of `calls` calls by the clock of the device they run on; negative when they run in this
 * process, whose clock is then the caller's. 0 on success. */
TESSERA_PEER_EXPORT int tessera_peer_time(TesseraPeerOp* op, int calls, double* seconds);

TESSERA_PEER_EXPORT int tessera_peer_get_output(TesseraPeerOp* op, float* data, int64_t count);

/* Why the last set_input, run or get_output of `op` did not return 0; valid until the next call. */
TESSERA_PEER_EXPORT const char* tessera_peer_error(const TesseraPeerOp* op);

TESSERA_PEER_EXPORT void tessera_peer_destroy(TesseraPeerOp* op);

/* Whole ONNX models: exported only by modules whose library runs them. */
typedef struct TesseraPeerModel TesseraPeerModel;

/* Memory of the caller, which outlives the model's runs. */
typedef struct TesseraPeerTensor {
  const char* name; /* of the model's input or output */
  int onnx_type;    /* TensorProto.DataType */
  const int64_t* dims;
  size_t rank;
  void* data;
  size_t bytes;
} TesseraPeerTensor;

/* Loads the model file. NULL and a reason when the library refuses it. */
TESSERA_PEER_EXPORT TesseraPeerModel* tessera_peer_open_model(const char* path, int threads,
                                                              char* reason, size_t reason_bytes);
TESSERA_PEER_EXPORT int tessera_peer_model_bind_input(TesseraPeerModel* model,
                                                      const TesseraPeerTensor* tensor);
TESSERA_PEER_EXPORT int tessera_peer_model_bind_output(TesseraPeerModel* model,
                                                       const TesseraPeerTensor* tensor);
/* One inference from the bound inputs into the bound outputs; 0 on success. */
TESSERA_PEER_EXPORT int tessera_peer_model_run(TesseraPeerModel* model);
TESSERA_PEER_EXPORT const char* tessera_peer_model_error(const TesseraPeerModel* model);
TESSERA_PEER_EXPORT void tessera_peer_close_model(TesseraPeerModel* model);

#ifdef __cplusplus
}
#endif
#endif
