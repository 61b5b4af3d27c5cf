/* The C interface of Tessera: compile or load a model, run it, save it as a library.
 *
 *   const tsr_api* api = tsr_get_api(TSR_API_VERSION);
 *   tsr_model* model = NULL;
 *   tsr_status status = api->compile("model.onnx", NULL, &model);
 *   if (status.code != TSR_OK) fprintf(stderr, "%s\n", status.message);
 *
 * Every function may be called from any thread. A model may be used by many sessions at the same
 * time; a session runs one call at a time. Nothing is thrown. */
#ifndef TESSERA_TESSERA_H_
#define TESSERA_TESSERA_H_

#include <stddef.h>
#include <stdint.h>

#include "tessera/backend/artifact/runtime/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when functions are added at the end of tsr_api or fields at the end of an options struct; a
 * library serves all versions up to its own. */
#define TSR_API_VERSION 11

typedef struct tsr_model tsr_model;
typedef struct tsr_session tsr_session;
typedef struct tsr_text tsr_text; /* a text that a language model reads and writes */

typedef struct tsr_input_shape {
  const char* name; /* of an input */
  const int64_t* shape;
  int32_t rank;
} tsr_input_shape;

typedef struct tsr_dimension {
  const char* name; /* of a symbolic dimension */
  int64_t value;
} tsr_dimension;

typedef struct tsr_input_value {
  const char* name; /* of an input */
  const char* text; /* "0.5", "true", "[1,2,3]": row by row; one number fills the input */
} tsr_input_value;

/* Zero everywhere but `size` is the default. */
typedef struct tsr_compile_options {
  size_t size; /* sizeof(tsr_compile_options) */
  const tsr_input_shape* shapes;
  int32_t num_shapes;
  const tsr_dimension* dimensions;
  int32_t num_dimensions;
  int32_t build_threads; /* 0: one per processor */
  /* Since version 2. plan: path of a file that `tessera tune` wrote; tasks that it does not have
   * get default schedules, or are an error (TSR_INVALID_ARGUMENT) when strict_plan is not 0.
   * cost_model: what judges schedules that no plan has, without measuring: paths of weights
   * ("A,B"), or NULL for default schedules. */
  const char* plan;
  int32_t strict_plan;
  const char* cost_model;
  /* Since version 3. target: "cuda" or "opencl" for the device at hand, or a machine of `tessera
   * targets`, which need not be here to compile and save (processors: since version 4); NULL: this
   * machine's processor. device: which one sessions use, counted from 0. queue: of OpenCL, a
   * cl_command_queue whose device and context they use instead, so that memory objects of that
   * context can be given. */
  const char* target;
  int32_t device;
  void* queue;
  /* Since version 4. Threads that the code of a processor shares its work among; 0: one per core.
   * Sessions of another number run it too, but not as well. */
  int32_t threads;
  /* Since version 5. "tf32": the tensor cores of a GPU may multiply f32 rounded to 10 bits of
   * fraction; "bf16x6": as three parts of bf16, about as exactly as f32. TSR_UNSUPPORTED where the
   * target has none. NULL: nothing is rounded beyond types. */
  const char* fast_math;
  /* Since version 7. "bf16" or "f16": compute f32 in it; weights are converted, sums stay f32,
   * inputs and outputs keep their types. TSR_UNSUPPORTED where no instruction of the
   * target multiplies it. NULL: f32. */
  const char* dtype;
  /* Since version 8. values: what inputs always are; the model is made for it, without those
   * inputs. batch: the parameter of a built-in model, else the size of the symbolic first
   * dimensions of the inputs; 0: as the model says. */
  const tsr_input_value* values;
  int32_t num_values;
  int64_t batch;
} tsr_compile_options;

enum { TSR_EMIT_SHARED = 0, TSR_EMIT_STATIC = 1, TSR_EMIT_OBJECT = 2 };
enum { TSR_WEIGHTS_AUTO = 0, TSR_WEIGHTS_EMBEDDED = 1, TSR_WEIGHTS_FILE = 2 };

typedef struct tsr_save_options {
  size_t size;        /* sizeof(tsr_save_options) */
  const char* name;   /* of files and symbols; NULL: the model's */
  const char* target; /* a row of `tessera targets`; NULL: what the model was compiled for */
  const char* cc;     /* C compiler; NULL: found by the target */
  int32_t emit, weights;
} tsr_save_options;

/* Since version 9, as all that follows for language models. */
typedef struct tsr_text_options {
  size_t size; /* sizeof(tsr_text_options) */
  int64_t
      context; /* tokens that are remembered; 0: as many as the model was made for, at most 4096 */
  int32_t threads; /* 0: one per core */
  /* Since version 11. What weights of 4 and 8 bits multiply: "int8" rounds it to bytes, 32 by 32,
   * where the processor multiplies those; "float" does not. NULL: "int8". */
  const char* activations;
} tsr_text_options;

typedef struct tsr_text_info {
  int64_t position;   /* tokens that were read */
  int64_t capacity;   /* that there is room for */
  int64_t vocabulary; /* logits of a step */
} tsr_text_info;

/* Zero everywhere but `size`: the likeliest token. Zero in top_p and repeat_penalty means 1. */
typedef struct tsr_sampling {
  size_t size; /* sizeof(tsr_sampling) */
  double temperature, top_p, min_p, repeat_penalty;
  int64_t top_k;
  uint64_t seed;
} tsr_sampling;

/* Since version 10. What somebody said: `count` bytes of UTF-8. */
typedef struct tsr_message {
  const char* role; /* "system", "user" or "assistant" */
  const char* bytes;
  size_t count;
} tsr_message;

typedef struct tsr_api {
  uint32_t version;
  const char* (*tessera_version)(void);

  /* model: path of an ONNX file, or "zoo:NAME@parameter=value,...". TSR_UNSUPPORTED names the nodes
   * that cannot be compiled; of GPUs also those that would run on the host. TSR_UNAVAILABLE: there
   * is no such device. options may be NULL. */
  tsr_status (*compile)(const char* model, const tsr_compile_options* options, tsr_model** result);
  /* The bytes of an ONNX file without external data. */
  tsr_status (*compile_memory)(const void* bytes, size_t count, const tsr_compile_options* options,
                               tsr_model** result);
  /* An artifact: its folder or its shared library. TSR_UNSUPPORTED: this machine cannot run it;
   * TSR_UNAVAILABLE: it is for a GPU, and there is none. */
  tsr_status (*load)(const char* path, tsr_model** result);
  /* Writes a compiled (not a loaded) model as an artifact; see docs/guide/artifacts.md. A target of
   * another kind than the model's is TSR_UNSUPPORTED: the graph was made for one. */
  tsr_status (*save)(const tsr_model* model, const char* folder, const tsr_save_options* options);
  /* Sessions stay valid. NULL is ignored. */
  void (*free_model)(tsr_model* model);

  int32_t (*num_inputs)(const tsr_model* model);
  int32_t (*num_outputs)(const tsr_model* model);
  /* Valid as long as the model; NULL when there is no such index. Since version 9 an output may
   * follow from data: sizes that do are -1, and so are its bytes; a rank of -1 is any shape. */
  const tsr_tensor_info* (*input)(const tsr_model* model, int32_t index);
  const tsr_tensor_info* (*output)(const tsr_model* model, int32_t index);

  /* threads: the caller included; 0: what the model was compiled for; unused by GPUs, of which a
   * session uploads the weights. TSR_UNAVAILABLE: there is no driver or no device.
   * TSR_UNSUPPORTED: the model is for another processor. */
  tsr_status (*create_session)(const tsr_model* model, int32_t threads, tsr_session** result);
  /* Reads all inputs and writes all outputs, in the order of the model. Types and shapes must be
   * those of the model; strides may be any, those without gaps are fastest. Models for GPUs also
   * take tensors of their device, without gaps, which are used in place and must be ready; the run
   * waits until its outputs are. Since version 9: where outputs follow from data, num_outputs may
   * be 0, and copy_output has them; given ones must have the shapes that the run finds. */
  tsr_status (*run)(tsr_session* session, const tsr_dl_tensor* inputs, int32_t num_inputs,
                    const tsr_dl_tensor* outputs, int32_t num_outputs);
  /* A copy of an output of the last run, with its own deleter; on the host. TSR_INVALID_ARGUMENT:
   * the output went to memory of the device. */
  tsr_status (*copy_output)(const tsr_session* session, int32_t index,
                            tsr_dl_managed_tensor** result);
  void (*free_session)(tsr_session* session);

  /* Since version 3. As run, on a stream of the caller (CUstream, cl_command_queue): with all
   * tensors on the device it is only put on it. */
  tsr_status (*run_on_stream)(tsr_session* session, const tsr_dl_tensor* inputs, int32_t num_inputs,
                              const tsr_dl_tensor* outputs, int32_t num_outputs, void* stream);

  /* Since version 6. 16 hexadecimal digits that say what the kernels are and what machine they are
   * for, as plan_digest of an artifact does: two models with the same digits compute in the same
   * way. Empty: a model for another processor, whose kernels are made by save, or one whose shapes
   * follow from data. Valid as long as the model. */
  const char* (*plan_digest)(const tsr_model* model);

  /* Since version 9. model: path of a GGUF file, or of a folder with config.json and safetensors.
   * options may be NULL. A text is used by one thread at a time. */
  tsr_status (*open_text)(const char* model, const tsr_text_options* options, tsr_text** result);
  /* An empty text of the same model, which shares its code and weights, and whose memory is its
   * own: it may be used at the same time, and outlive the other. */
  tsr_status (*another_text)(const tsr_text* text, tsr_text** result);
  void (*free_text)(tsr_text* text); /* NULL is ignored */
  tsr_status (*text_info)(const tsr_text* text, tsr_text_info* info);
  /* The tokens of some bytes of UTF-8, with those that the model wants around a text. *result: how
   * many there are; no more are written than there is room for. */
  tsr_status (*encode)(const tsr_text* text, const char* bytes, size_t count, int32_t* tokens,
                       size_t room, size_t* result);
  /* What a token stands for, valid as long as any text of the model, maybe no whole characters; and
   * whether it ends a text. */
  tsr_status (*token_bytes)(const tsr_text* text, int32_t token, const char** bytes, size_t* count,
                            int32_t* ends);
  /* Reads tokens behind those that were read before. The logits of what comes next are valid until
   * the next call with this text; logits may be NULL. */
  tsr_status (*step)(tsr_text* text, const int32_t* tokens, size_t count, const float** logits);
  /* Forgets what was read behind the first `position` tokens. Since version 11 the random numbers
   * of pick begin anew. */
  tsr_status (*rewind_text)(tsr_text* text, int64_t position);
  /* A token by the logits of the last step. Equal options go on with the same random numbers, up to
   * rewind_text. It is not read yet. options may be NULL. */
  tsr_status (*pick)(tsr_text* text, const tsr_sampling* options, int32_t* token);

  /* Since version 10. As encode, for a prompt with its marks: control tokens are recognised in it,
   * and one that marks the beginning is not added to one that is there. */
  tsr_status (*encode_prompt)(const tsr_text* text, const char* bytes, size_t count,
                              int32_t* tokens, size_t room, size_t* result);
  /* As encode, for a conversation in the format of the model's chat template, up to where the
   * answer to the last message begins. Users and assistants speak in turns, maybe behind a message
   * of the system; control tokens in what they say are plain text. TSR_UNSUPPORTED: the template is
   * of no known family. */
  tsr_status (*encode_chat)(const tsr_text* text, const tsr_message* messages, size_t num_messages,
                            int32_t* tokens, size_t room, size_t* result);

  /* Since version 11. Compiles what texts of so many tokens need, so that no step waits. */
  tsr_status (*warm_up_text)(tsr_text* text, int64_t tokens);
} tsr_api;

/* NULL: the library is older than `version`. */
const tsr_api* tsr_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
