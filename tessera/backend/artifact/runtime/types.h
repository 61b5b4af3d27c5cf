/* What the header of every artifact declares: status, description of the model, options. An
 * artifact's NAME.h holds this text, so that it needs no file of Tessera; several such headers may
 * be included together. */
#ifndef TESSERA_ARTIFACT_TYPES_H_
#define TESSERA_ARTIFACT_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#include "tessera/machine/runtime/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a struct below or a function of tsr_model_api changes its meaning. */
#define TSR_ARTIFACT_ABI 2

enum {
  TSR_OK = 0,
  TSR_INVALID_ARGUMENT = 1,
  TSR_UNSUPPORTED = 2, /* this machine or this version cannot do it */
  TSR_IO = 3,
  TSR_UNAVAILABLE = 4, /* a compiler, file or device is absent */
  TSR_BUILD_FAILED = 5,
  TSR_RUN_FAILED = 6,
  TSR_DATA_DEPENDENT = 7, /* a shape follows from values that only a run knows */
  TSR_OUT_OF_MEMORY = 8,
  TSR_INTERNAL = 9
};

/* A value: nothing to free. `message` is empty for TSR_OK and ends with "..." when it was cut. */
typedef struct tsr_status {
  int32_t code;
  char message[508];
} tsr_status;

/* Row-major, without gaps. dl_code, dl_bits: the element type as DLPack numbers it. */
typedef struct tsr_tensor_info {
  const char* name;
  const char* dtype; /* "f32", "i8", "bool", ... */
  int32_t dl_code, dl_bits;
  int32_t rank;
  const int64_t* shape;
  int64_t bytes;
} tsr_tensor_info;

/* Where a tensor is, and where a model computes: as DLPack numbers it. */
enum {
  TSR_DL_CPU = 1,
  TSR_DL_CUDA = 2,
  TSR_DL_CUDA_HOST = 3, /* host memory that CUDA pinned */
  TSR_DL_OPENCL = 4,
  TSR_DL_CUDA_MANAGED = 13
};

/* The structs of DLPack, member by member: a DLTensor* or DLManagedTensor* may be cast to these. */
typedef struct tsr_dl_device {
  int32_t device_type; /* TSR_DL_... */
  int32_t device_id;
} tsr_dl_device;

typedef struct tsr_dl_type {
  uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} tsr_dl_type;

typedef struct tsr_dl_tensor {
  void* data; /* an address; of OpenCL: a cl_mem */
  tsr_dl_device device;
  int32_t ndim;
  tsr_dl_type dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: row-major without gaps */
  uint64_t byte_offset;
} tsr_dl_tensor;

typedef struct tsr_dl_managed_tensor {
  tsr_dl_tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct tsr_dl_managed_tensor* self);
} tsr_dl_managed_tensor;

typedef struct tsr_model_info {
  uint32_t abi; /* TSR_ARTIFACT_ABI of the compiler */
  const char* name;
  const char* tessera_version;
  const char* target;   /* all facts that influenced the code */
  const char* triple;   /* of the library: "x86_64-unknown-linux-gnu" */
  const char* features; /* "avx2,fma": what the processor must have */
  int32_t device_type;  /* where it computes: TSR_DL_CPU, TSR_DL_CUDA or TSR_DL_OPENCL */
  const char* model_digest;
  const char* plan_digest; /* of the machine and the kernels */
  const char* weights_digest;
  int64_t weights_bytes; /* of the embedded data or of the weights file */
  int32_t weights_embedded;
  int64_t arena_bytes;  /* values between kernels, in the memory of the device */
  int64_t shared_bytes; /* scratch of the kernels: once ... */
  int64_t worker_bytes; /* ... and for each worker */
  int32_t num_inputs, num_outputs;
  const tsr_tensor_info* inputs;
  const tsr_tensor_info* outputs;
  const char* json; /* the same and more; also in the section .tessera of the file */
} tsr_model_info;

/* A model that was opened; one run at a time. Different contexts may run at the same time. */
typedef struct tsr_context tsr_context;

/* Zero everywhere is the default. */
typedef struct tsr_open_options {
  int32_t threads;          /* with the caller among them; 0: one per core; unused with `host` */
  tsr_host* host;           /* runs parallel loops instead of own threads; outlives the context */
  const char* weights_path; /* when the weights are not embedded: this file is mapped, or */
  const void* weights;      /* its content at a multiple of 64 bytes, which outlives the context */
  uint64_t weights_bytes;
  int32_t trust_weights; /* 1: do not compare the digest of all bytes */
  /* Of models for GPUs. device: which one, counted from 0. queue: of OpenCL, a cl_command_queue of
   * the caller, whose device and context are then used: memory objects belong to a context. */
  int32_t device;
  void* queue;
} tsr_open_options;

/* Everything an artifact offers, as NAME_api() returns it. */
typedef struct tsr_model_api {
  uint32_t abi;
  const tsr_model_info* info;
  tsr_status (*open)(const tsr_open_options* options, tsr_context** context);
  int64_t (*memory_bytes)(const tsr_context* context);
  tsr_status (*run)(tsr_context* context, const void* const* inputs, void* const* outputs,
                    void* memory);
  void (*close)(tsr_context* context);
  tsr_status (*run_tensors)(tsr_context* context, const tsr_dl_tensor* inputs,
                            const tsr_dl_tensor* outputs, void* stream);
} tsr_model_api;

#ifdef __cplusplus
}
#endif
#endif
