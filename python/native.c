/* tessera._native: the C interface of Tessera as Python types. Built against the stable ABI of
 * Python 3.11, which all later versions have. What is pleasant to use is in tessera/__init__.py. */
#include "native.h"

const tsr_api* api;
static PyObject* error_type; /* tessera.Error, with the number of the status as `code` */
static PyTypeObject* model_type;
static PyTypeObject* session_type;
static PyObject *dlpack_name, *exchange_name, *gradient_name, *version_name;

enum { kMostTensors = 128, kMostDims = 16 };

PyObject* raise_status(const tsr_status* status) {
  PyObject* error = PyObject_CallFunction(error_type, "s", status->message);
  PyObject* code = PyLong_FromLong(status->code);
  if (error && code && PyObject_SetAttrString(error, "code", code) == 0)
    PyErr_SetObject(error_type, error);
  Py_XDECREF(code);
  Py_XDECREF(error);
  return NULL;
}

/* ---- models ---- */

typedef struct {
  PyObject_HEAD tsr_model* handle;
} Model;

typedef struct {
  PyObject_HEAD tsr_session* handle;
  PyThread_type_lock lock; /* one run at a time */
  PyObject* model;         /* its outputs are described there */
  /* Of arrays that have no table of DLPack (NumPy): their type, what makes one, and a tuple of its
   * arguments for each output. NULL until allocate_with. */
  PyObject *array_type, *make_array, *array_arguments;
} Session;

void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static PyObject* wrap_model(tsr_model* handle) {
  allocfunc make = (allocfunc)PyType_GetSlot(model_type, Py_tp_alloc);
  Model* self = (Model*)make(model_type, 0);
  if (!self) {
    api->free_model(handle);
    return NULL;
  }
  self->handle = handle;
  return (PyObject*)self;
}

static void model_dealloc(PyObject* self) {
  api->free_model(((Model*)self)->handle);
  free_object(self);
}

/* {name: (sizes...)} and {name: size} as the options take them; the arrays live as long as
 * `memory`. */
typedef struct {
  tsr_input_shape shapes[64];
  int64_t sizes[64][kMostDims];
  tsr_dimension dimensions[64];
  tsr_input_value values[64];
} Inputs;

static int fill_shapes(PyObject* dict, Inputs* to, int32_t* count) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  *count = 0;
  while (dict != Py_None && PyDict_Next(dict, &at, &key, &value)) {
    Py_ssize_t rank = PySequence_Size(value), d;
    tsr_input_shape* shape = &to->shapes[*count];
    if (rank < 0) return -1;
    if (*count == 64 || rank > kMostDims) {
      PyErr_SetString(PyExc_ValueError, "too many shapes or dimensions");
      return -1;
    }
    for (d = 0; d < rank; ++d) {
      PyObject* item = PySequence_GetItem(value, d);
      if (!item) return -1;
      to->sizes[*count][d] = PyLong_AsLongLong(item);
      Py_DECREF(item);
      if (PyErr_Occurred()) return -1;
    }
    shape->name = PyUnicode_AsUTF8AndSize(key, NULL);
    if (!shape->name) return -1;
    shape->shape = to->sizes[*count];
    shape->rank = (int32_t)rank;
    ++*count;
  }
  return 0;
}

static int fill_dimensions(PyObject* dict, Inputs* to, int32_t* count) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  *count = 0;
  while (dict != Py_None && PyDict_Next(dict, &at, &key, &value)) {
    tsr_dimension* dimension = &to->dimensions[*count];
    if (*count == 64) {
      PyErr_SetString(PyExc_ValueError, "too many dimensions");
      return -1;
    }
    dimension->name = PyUnicode_AsUTF8AndSize(key, NULL);
    dimension->value = PyLong_AsLongLong(value);
    if (!dimension->name || PyErr_Occurred()) return -1;
    ++*count;
  }
  return 0;
}

static int fill_values(PyObject* dict, Inputs* to, int32_t* count) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  *count = 0;
  while (dict != Py_None && PyDict_Next(dict, &at, &key, &value)) {
    tsr_input_value* input = &to->values[*count];
    if (*count == 64) {
      PyErr_SetString(PyExc_ValueError, "too many values");
      return -1;
    }
    input->name = PyUnicode_AsUTF8AndSize(key, NULL);
    input->text = PyUnicode_AsUTF8AndSize(value, NULL);
    if (!input->name || !input->text) return -1;
    ++*count;
  }
  return 0;
}

/* compile(model, shapes, dims, plan, strict, cost_model, target, device, build_threads, threads,
 * fast_math, dtype, values, batch) */
static PyObject* compile(PyObject* module, PyObject* args) {
  PyObject *source, *shapes, *dims, *values;
  long long batch;
  tsr_compile_options options;
  tsr_model* model = NULL;
  tsr_status status;
  Inputs inputs;
  (void)module;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  if (!PyArg_ParseTuple(args, "OOOzizziiizzOL", &source, &shapes, &dims, &options.plan,
                        &options.strict_plan, &options.cost_model, &options.target, &options.device,
                        &options.build_threads, &options.threads, &options.fast_math,
                        &options.dtype, &values, &batch)) {
    return NULL;
  }
  if (fill_shapes(shapes, &inputs, &options.num_shapes) ||
      fill_dimensions(dims, &inputs, &options.num_dimensions) ||
      fill_values(values, &inputs, &options.num_values)) {
    return NULL;
  }
  options.values = inputs.values;
  options.batch = batch;
  options.shapes = inputs.shapes;
  options.dimensions = inputs.dimensions;
  if (PyBytes_Check(source)) {
    char* bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(source, &bytes, &size)) return NULL;
    Py_BEGIN_ALLOW_THREADS status = api->compile_memory(bytes, (size_t)size, &options, &model);
    Py_END_ALLOW_THREADS
  } else {
    const char* name = PyUnicode_AsUTF8AndSize(source, NULL);
    if (!name) return NULL;
    Py_BEGIN_ALLOW_THREADS status = api->compile(name, &options, &model);
    Py_END_ALLOW_THREADS
  }
  return status.code == TSR_OK ? wrap_model(model) : raise_status(&status);
}

static PyObject* load(PyObject* module, PyObject* path) {
  const char* name = PyUnicode_AsUTF8AndSize(path, NULL);
  tsr_model* model = NULL;
  tsr_status status;
  (void)module;
  if (!name) return NULL;
  Py_BEGIN_ALLOW_THREADS status = api->load(name, &model);
  Py_END_ALLOW_THREADS return status.code == TSR_OK ? wrap_model(model) : raise_status(&status);
}

static PyObject* model_save(PyObject* self, PyObject* args) {
  const char* folder;
  tsr_save_options options;
  tsr_status status;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  if (!PyArg_ParseTuple(args, "szzzii", &folder, &options.name, &options.target, &options.cc,
                        &options.emit, &options.weights)) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS status = api->save(((Model*)self)->handle, folder, &options);
  Py_END_ALLOW_THREADS if (status.code != TSR_OK) return raise_status(&status);
  Py_RETURN_NONE;
}

static PyObject* describe(const tsr_tensor_info* info) {
  PyObject* shape;
  int32_t d;
  if (info->rank < 0) return Py_BuildValue("(ssO)", info->name, info->dtype, Py_None);
  shape = PyTuple_New(info->rank);
  for (d = 0; shape && d < info->rank; ++d) {
    PyObject* size = PyLong_FromLongLong(info->shape[d]);
    if (!size || PyTuple_SetItem(shape, d, size)) Py_CLEAR(shape);
  }
  return shape ? Py_BuildValue("(ssN)", info->name, info->dtype, shape) : NULL;
}

static PyObject* describe_all(const tsr_model* model, int32_t count,
                              const tsr_tensor_info* (*get)(const tsr_model*, int32_t)) {
  PyObject* list = PyList_New(count);
  int32_t i;
  for (i = 0; list && i < count; ++i) {
    PyObject* one = describe(get(model, i));
    if (!one || PyList_SetItem(list, i, one)) Py_CLEAR(list);
  }
  return list;
}

static PyObject* model_inputs(PyObject* self, PyObject* unused) {
  tsr_model* model = ((Model*)self)->handle;
  (void)unused;
  return describe_all(model, api->num_inputs(model), api->input);
}

static PyObject* model_outputs(PyObject* self, PyObject* unused) {
  tsr_model* model = ((Model*)self)->handle;
  (void)unused;
  return describe_all(model, api->num_outputs(model), api->output);
}

static PyObject* model_plan_digest(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyUnicode_FromString(api->plan_digest(((Model*)self)->handle));
}

static PyObject* model_session(PyObject* self, PyObject* args) {
  int threads;
  tsr_status status;
  tsr_session* handle = NULL;
  Session* session;
  if (!PyArg_ParseTuple(args, "i", &threads)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = api->create_session(((Model*)self)->handle, threads, &handle);
  Py_END_ALLOW_THREADS if (status.code != TSR_OK) return raise_status(&status);
  session = (Session*)((allocfunc)PyType_GetSlot(session_type, Py_tp_alloc))(session_type, 0);
  if (!session) {
    api->free_session(handle);
    return NULL;
  }
  session->handle = handle;
  Py_INCREF(self);
  session->model = self;
  session->lock = PyThread_allocate_lock();
  if (!session->lock) {
    Py_DECREF(session);
    return PyErr_NoMemory();
  }
  return (PyObject*)session;
}

/* ---- sessions ---- */

static void session_dealloc(PyObject* self) {
  Session* session = (Session*)self;
  api->free_session(session->handle);
  if (session->lock) PyThread_free_lock(session->lock);
  Py_XDECREF(session->model);
  Py_XDECREF(session->array_type);
  Py_XDECREF(session->make_array);
  Py_XDECREF(session->array_arguments);
  free_object(self);
}

/* DLPack's table of functions (version 1.2), which types of tensors may offer: no capsule, no call
 * of Python. PyTorch has it since 2.10. */
typedef struct ManagedTensor {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct ManagedTensor*);
  uint64_t flags;
  tsr_dl_tensor tensor;
} ManagedTensor;

typedef struct Exchange {
  uint32_t major, minor;
  const struct Exchange* previous;
  int (*allocate)(tsr_dl_tensor* prototype, ManagedTensor** out, void* context,
                  void (*fail)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensor** out);
  int (*object_from_managed)(ManagedTensor* tensor, void** out);
  int (*tensor_from_object)(void* object, tsr_dl_tensor* out); /* may be NULL */
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
} Exchange;

/* The table of the object's type, or NULL. The last type that had one is remembered. */
static const Exchange* exchange_of(PyObject* object) {
  static PyObject* known_type;
  static const Exchange* known;
  PyObject *type = (PyObject*)Py_TYPE(object), *capsule;
  const Exchange* found;
  if (type == known_type) return known;
  capsule = PyObject_GetAttr(type, exchange_name);
  if (!capsule) {
    PyErr_Clear();
    return NULL;
  }
  found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_DECREF(capsule);
  PyErr_Clear();
  while (found && found->major != 1) found = found->previous;
  if (!found || !found->tensor_from_object) return NULL;
  Py_INCREF(type);
  Py_XDECREF(known_type);
  known_type = type;
  known = found;
  return found;
}

/* A tensor of the caller, by its buffer or through DLPack: nothing is copied. */
typedef struct {
  Py_buffer buffer;
  PyObject* capsule;
  int64_t shape[kMostDims], strides[kMostDims];
} Held;

static int bad_tensor(const char* what) {
  PyErr_SetString(PyExc_TypeError, what);
  return -1;
}

static int fill_from_buffer(PyObject* object, int writable, Held* held, tsr_dl_tensor* to) {
  Py_buffer* b = &held->buffer;
  const char* format;
  int d;
  int64_t dense = 1;
  if (PyObject_GetBuffer(object, b, writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO)) return -1;
  format = b->format ? b->format : "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (b->ndim > kMostDims || format[0] == '\0' || format[1] != '\0') {
    return bad_tensor("the elements of a tensor must be plain numbers");
  }
  switch (*format) {
    case '?':
      to->dtype.code = 6;
      break;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      to->dtype.code = 0;
      break;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      to->dtype.code = 1;
      break;
    case 'e':
    case 'f':
    case 'd':
      to->dtype.code = 2;
      break;
    default:
      return bad_tensor("the elements of a tensor must be plain numbers");
  }
  to->dtype.bits = (uint8_t)(8 * b->itemsize);
  to->dtype.lanes = 1;
  to->device.device_type = TSR_DL_CPU;
  to->device.device_id = 0;
  to->data = b->buf;
  to->byte_offset = 0;
  to->ndim = b->ndim;
  to->shape = (int64_t*)b->shape;
  to->strides = NULL;
  for (d = b->ndim - 1; d >= 0; --d) {
    if (b->strides[d] % b->itemsize != 0) return bad_tensor("strides must be whole elements");
    held->strides[d] = b->strides[d] / b->itemsize;
    if (b->shape[d] != 1 && held->strides[d] != dense) to->strides = held->strides;
    dense *= b->shape[d];
  }
  return 0;
}

static int fill_from_dlpack(PyObject* object, Held* held, tsr_dl_tensor* to) {
  const tsr_dl_managed_tensor* managed;
  if (PyCapsule_IsValid(object, "dltensor")) {
    Py_INCREF(object);
    held->capsule = object;
  } else {
    held->capsule = PyObject_CallMethodObjArgs(object, dlpack_name, NULL);
  }
  if (!held->capsule) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
      PyErr_Clear();
      return bad_tensor("a tensor must have a buffer (NumPy) or __dlpack__ (PyTorch, JAX, CuPy)");
    }
    return -1;
  }
  managed = PyCapsule_GetPointer(held->capsule, "dltensor");
  if (!managed) return -1;
  *to = managed->dl_tensor;
  return 0;
}

/* Whether a tensor is one to differentiate by, which nobody else may write or read unnoticed. */
static int has_gradient(PyObject* object) {
  PyObject* value = PyObject_GetAttr(object, gradient_name);
  int has;
  if (!value) {
    PyErr_Clear();
    return 0;
  }
  has = value == Py_True;
  Py_DECREF(value);
  return has;
}

/* 1: `to` is the tensor, which is on the host; 0: ask for a capsule, which waits for devices. */
static int fill_from_exchange(const Exchange* exchange, PyObject* object, Held* held,
                              tsr_dl_tensor* to) {
  if (has_gradient(object) || exchange->tensor_from_object(object, to)) {
    PyErr_Clear();
    return 0;
  }
  if (to->device.device_type != TSR_DL_CPU || to->ndim > kMostDims) return 0;
  memcpy(held->shape, to->shape, (size_t)to->ndim * sizeof *to->shape);
  to->shape = held->shape;
  if (to->strides) {
    memcpy(held->strides, to->strides, (size_t)to->ndim * sizeof *to->strides);
    to->strides = held->strides;
  }
  return 1;
}

static int fill(PyObject* object, int writable, Held* held, tsr_dl_tensor* to) {
  const Exchange* exchange;
  held->buffer.obj = NULL;
  held->capsule = NULL;
  if (PyObject_CheckBuffer(object)) return fill_from_buffer(object, writable, held, to);
  exchange = exchange_of(object);
  if (exchange && fill_from_exchange(exchange, object, held, to)) return 0;
  return fill_from_dlpack(object, held, to);
}

static void release(Held* held) {
  if (held->buffer.obj) PyBuffer_Release(&held->buffer);
  Py_XDECREF(held->capsule);
}

static PyObject* run_tensors(Session* session, tsr_dl_tensor* tensors, Py_ssize_t inputs,
                             Py_ssize_t outputs) {
  tsr_status status;
  Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(session->lock, WAIT_LOCK);
  status = api->run(session->handle, tensors, (int32_t)inputs, tensors + inputs, (int32_t)outputs);
  PyThread_release_lock(session->lock);
  Py_END_ALLOW_THREADS if (status.code != TSR_OK) return raise_status(&status);
  Py_RETURN_NONE;
}

/* Describes the tensors of a tuple from `held` and `tensors` on; *done counts those to release. */
static int fill_all(PyObject* tuple, int writable, Held* held, tsr_dl_tensor* tensors,
                    Py_ssize_t* done) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  Py_ssize_t i;
  if (count > kMostTensors) {
    PyErr_SetString(PyExc_ValueError, "too many tensors");
    return -1;
  }
  for (i = 0; i < count; ++i) {
    const int failed = fill(PyTuple_GetItem(tuple, i), writable, &held[*done], &tensors[*done]);
    ++*done;
    if (failed) return -1;
  }
  return 0;
}

/* run(inputs, outputs): tuples of tensors in the order of the model. */
static PyObject* session_run(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  Held held[2 * kMostTensors];
  tsr_dl_tensor tensors[2 * kMostTensors];
  Py_ssize_t i, done = 0;
  PyObject* result = NULL;
  if (count != 2 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "run takes a tuple of inputs and a tuple of outputs");
    return NULL;
  }
  if (!fill_all(args[0], 0, held, tensors, &done) && !fill_all(args[1], 1, held, tensors, &done)) {
    const Py_ssize_t inputs = PyTuple_Size(args[0]);
    result = run_tensors((Session*)self, tensors, inputs, done - inputs);
  }
  for (i = 0; i < done; ++i) release(&held[i]);
  return result;
}

static void fail_allocation(void* context, const char* kind, const char* message) {
  (void)context, (void)kind;
  PyErr_SetString(PyExc_MemoryError, message);
}

/* A new tensor of the library behind `exchange`; a new reference. */
static PyObject* new_tensor(const Exchange* exchange, const tsr_tensor_info* info) {
  tsr_dl_tensor prototype;
  ManagedTensor* managed = NULL;
  void* object = NULL;
  memset(&prototype, 0, sizeof prototype);
  prototype.device.device_type = TSR_DL_CPU;
  prototype.dtype = (tsr_dl_type){(uint8_t)info->dl_code, (uint8_t)info->dl_bits, 1};
  prototype.ndim = info->rank;
  prototype.shape = (int64_t*)info->shape;
  if (exchange->allocate(&prototype, &managed, NULL, fail_allocation)) return NULL;
  if (exchange->object_from_managed(managed, &object)) return NULL;
  return object;
}

/* allocate_with(type, function, arguments): arrays of the type are answered with
 * function(*arguments of the output). */
static PyObject* session_allocate_with(PyObject* self, PyObject* args) {
  Session* session = (Session*)self;
  PyObject *type, *function, *arguments;
  Py_ssize_t i;
  if (!PyArg_ParseTuple(args, "OOO!", &type, &function, &PyTuple_Type, &arguments)) return NULL;
  for (i = 0; i < PyTuple_Size(arguments); ++i) {
    if (!PyTuple_Check(PyTuple_GetItem(arguments, i))) {
      PyErr_SetString(PyExc_TypeError, "the arguments of each output are a tuple");
      return NULL;
    }
  }
  if (PyTuple_Size(arguments) != api->num_outputs(((Model*)session->model)->handle)) {
    PyErr_SetString(PyExc_TypeError, "every output needs arguments");
    return NULL;
  }
  if (!session->array_type) { /* once: a run in another thread may be reading them */
    Py_INCREF(function);
    session->make_array = function;
    Py_INCREF(arguments);
    session->array_arguments = arguments;
    Py_INCREF(type);
    session->array_type = type;
  }
  Py_RETURN_NONE;
}

/* The tensors of the caller; *done counts those to release. 0: not all are of one kind. */
static int fill_inputs(PyObject* inputs, const Exchange* exchange, Held* held,
                       tsr_dl_tensor* tensors, Py_ssize_t* done) {
  const Py_ssize_t count = PyTuple_Size(inputs);
  PyTypeObject* type = Py_TYPE(PyTuple_GetItem(inputs, 0));
  for (; *done < count; ++*done) {
    PyObject* object = PyTuple_GetItem(inputs, *done);
    Held* at = &held[*done];
    at->buffer.obj = NULL;
    at->capsule = NULL;
    if (Py_TYPE(object) != type) return 0;
    if (exchange ? !fill_from_exchange(exchange, object, at, &tensors[*done])
                 : fill_from_buffer(object, 0, at, &tensors[*done])) {
      release(at);
      PyErr_Clear(); /* whoever takes any tensor says what is wrong with it */
      return 0;
    }
  }
  return 1;
}

/* One new tensor of the kind of the inputs, described in `to`; a new reference. */
static PyObject* new_output(Session* session, const Exchange* exchange, int32_t i, Held* held,
                            tsr_dl_tensor* to) {
  PyObject* made;
  int failed;
  held->buffer.obj = NULL;
  held->capsule = NULL;
  if (exchange) {
    made = new_tensor(exchange, api->output(((Model*)session->model)->handle, i));
    failed = made && exchange->tensor_from_object(made, to);
  } else {
    made = PyObject_CallObject(session->make_array, PyTuple_GetItem(session->array_arguments, i));
    failed = made && fill_from_buffer(made, 1, held, to);
  }
  if (failed) Py_CLEAR(made);
  return made;
}

/* run_new(inputs): the output, or a tuple of them, as new tensors of the library that the inputs
 * are of; NotImplemented unless all inputs are of one type that has DLPack's table and lie on the
 * host, or that allocate_with made known. */
static PyObject* session_run_new(PyObject* self, PyObject* inputs) {
  Session* session = (Session*)self;
  const tsr_model* model = ((Model*)session->model)->handle;
  const int32_t outputs = api->num_outputs(model);
  Held held[2 * kMostTensors];
  tsr_dl_tensor tensors[2 * kMostTensors];
  const Exchange* exchange = NULL;
  PyObject *made = NULL, *one = NULL, *none = NULL;
  Py_ssize_t count, done = 0, i;
  int known;
  if (!PyTuple_Check(inputs)) {
    PyErr_SetString(PyExc_TypeError, "run_new takes a tuple of inputs");
    return NULL;
  }
  count = PyTuple_Size(inputs);
  for (i = 0; i < outputs; ++i) {
    if (api->output(model, (int32_t)i)->bytes < 0) { /* nobody can allocate it yet */
      Py_INCREF(Py_NotImplemented);
      return Py_NotImplemented;
    }
  }
  known = count > 0 && count == api->num_inputs(model) && count <= kMostTensors && outputs > 0 &&
          outputs <= kMostTensors;
  if (known && (PyObject*)Py_TYPE(PyTuple_GetItem(inputs, 0)) != session->array_type) {
    exchange = exchange_of(PyTuple_GetItem(inputs, 0));
    known = exchange != NULL;
  }
  if (!known || !fill_inputs(inputs, exchange, held, tensors, &done)) {
    made = Py_NotImplemented;
    Py_INCREF(made);
  } else {
    if (outputs > 1) made = PyTuple_New(outputs);
    for (i = 0; i < outputs && (made || outputs == 1); ++i) {
      one = new_output(session, exchange, (int32_t)i, &held[done], &tensors[done]);
      if (one) ++done;
      if (outputs == 1) {
        made = one;
      } else if (!one || PyTuple_SetItem(made, i, one)) {
        Py_CLEAR(made);
      }
    }
    if (made) none = run_tensors(session, tensors, count, outputs);
    if (!none) Py_CLEAR(made);
    Py_XDECREF(none);
  }
  for (i = 0; i < done; ++i) release(&held[i]);
  return made;
}

/* ---- outputs that follow from data ---- */

static void free_unused(PyObject* capsule) {
  tsr_dl_managed_tensor* tensor;
  if (!PyCapsule_IsValid(capsule, "dltensor")) return; /* somebody took it */
  tensor = PyCapsule_GetPointer(capsule, "dltensor");
  if (tensor) tensor->deleter(tensor);
}

/* output(i): the shape and a capsule of DLPack with what the last run left. */
static PyObject* session_output(PyObject* self, PyObject* index) {
  Session* session = (Session*)self;
  const long i = PyLong_AsLong(index);
  tsr_dl_managed_tensor* tensor = NULL;
  tsr_status status;
  PyObject *capsule, *shape;
  int32_t d;
  if (i == -1 && PyErr_Occurred()) return NULL;
  Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(session->lock, WAIT_LOCK); /* a run writes them */
  status = api->copy_output(session->handle, i == (int32_t)i ? (int32_t)i : -1, &tensor);
  PyThread_release_lock(session->lock);
  Py_END_ALLOW_THREADS if (status.code != TSR_OK) return raise_status(&status);
  capsule = PyCapsule_New(tensor, "dltensor", free_unused);
  if (!capsule) {
    tensor->deleter(tensor);
    return NULL;
  }
  shape = PyTuple_New(tensor->dl_tensor.ndim);
  for (d = 0; shape && d < tensor->dl_tensor.ndim; ++d) {
    PyObject* size = PyLong_FromLongLong(tensor->dl_tensor.shape[d]);
    if (!size || PyTuple_SetItem(shape, d, size)) Py_CLEAR(shape);
  }
  if (!shape) {
    Py_DECREF(capsule);
    return NULL;
  }
  return Py_BuildValue("(NN)", shape, capsule);
}

/* copy(capsule, array): its bytes into an array of the same size. */
static PyObject* copy(PyObject* module, PyObject* args) {
  PyObject *capsule, *array;
  const tsr_dl_managed_tensor* from;
  Py_buffer to;
  Py_ssize_t bytes;
  int32_t d;
  (void)module;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &array)) return NULL;
  from = PyCapsule_GetPointer(capsule, "dltensor");
  if (!from || PyObject_GetBuffer(array, &to, PyBUF_CONTIG)) return NULL;
  bytes = from->dl_tensor.dtype.bits / 8;
  for (d = 0; d < from->dl_tensor.ndim; ++d) bytes *= (Py_ssize_t)from->dl_tensor.shape[d];
  if (bytes != to.len) {
    PyErr_SetString(PyExc_ValueError, "the array has another size");
  } else if (bytes > 0) {
    memcpy(to.buf, from->dl_tensor.data, (size_t)bytes);
  }
  PyBuffer_Release(&to);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

/* ---- weights of PyTorch ---- */

/* unchanged(arguments, places, kept, versions): whether the arguments at these places are still the
 * kept tensors, and nobody wrote to them since they had these versions. All but the list of
 * arguments are tuples. */
static PyObject* unchanged(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  Py_ssize_t i, size;
  (void)module;
  if (count != 4 || !PyList_Check(args[0]) || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2]) ||
      !PyTuple_Check(args[3]) || PyTuple_Size(args[1]) != PyTuple_Size(args[2]) ||
      PyTuple_Size(args[1]) != PyTuple_Size(args[3])) {
    PyErr_SetString(PyExc_TypeError, "unchanged takes a list and three tuples of one length");
    return NULL;
  }
  size = PyTuple_Size(args[1]);
  for (i = 0; i < size; ++i) {
    PyObject *kept = PyTuple_GetItem(args[2], i), *version;
    const Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GetItem(args[1], i));
    PyObject* given = at == -1 && PyErr_Occurred() ? NULL : PyList_GetItem(args[0], at);
    int same;
    if (!given) return NULL;
    if (given != kept) Py_RETURN_FALSE;
    version = PyObject_GetAttr(kept, version_name);
    if (!version) return NULL;
    same = PyObject_RichCompareBool(version, PyTuple_GetItem(args[3], i), Py_EQ);
    Py_DECREF(version);
    if (same < 0) return NULL;
    if (!same) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

/* ---- the module ---- */

static PyMethodDef model_methods[] = {{"save", model_save, METH_VARARGS, NULL},
                                      {"session", model_session, METH_VARARGS, NULL},
                                      {"inputs", model_inputs, METH_NOARGS, NULL},
                                      {"outputs", model_outputs, METH_NOARGS, NULL},
                                      {"plan_digest", model_plan_digest, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot model_slots[] = {
    {Py_tp_dealloc, (void*)model_dealloc}, {Py_tp_methods, model_methods}, {0, NULL}};
static PyType_Spec model_spec = {"tessera._native.Model", sizeof(Model), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 model_slots};

static PyMethodDef session_methods[] = {
    {"run", (PyCFunction)(void (*)(void))session_run, METH_FASTCALL, NULL},
    {"run_new", session_run_new, METH_O, NULL},
    {"allocate_with", session_allocate_with, METH_VARARGS, NULL},
    {"output", session_output, METH_O, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot session_slots[] = {
    {Py_tp_dealloc, (void*)session_dealloc}, {Py_tp_methods, session_methods}, {0, NULL}};
static PyType_Spec session_spec = {"tessera._native.Session", sizeof(Session), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   session_slots};

static PyObject* version(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyUnicode_FromString(api->tessera_version());
}

static PyMethodDef functions[] = {
    {"compile", compile, METH_VARARGS, NULL},
    {"load", load, METH_O, NULL},
    {"version", version, METH_NOARGS, NULL},
    {"copy", copy, METH_VARARGS, NULL},
    {"unchanged", (PyCFunction)(void (*)(void))unchanged, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tessera._native", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) {
  PyObject* module;
  api = tsr_get_api(TSR_API_VERSION);
  if (!api) {
    PyErr_SetString(PyExc_ImportError, "libtessera.so is older than this package");
    return NULL;
  }
  module = PyModule_Create(&definition);
  model_type = (PyTypeObject*)PyType_FromSpec(&model_spec);
  session_type = (PyTypeObject*)PyType_FromSpec(&session_spec);
  error_type = PyErr_NewExceptionWithDoc(
      "tessera.Error", "What Tessera refused, and why; `code` is that of tsr_status.",
      PyExc_RuntimeError, Py_BuildValue("{si}", "code", 0));
  dlpack_name = PyUnicode_InternFromString("__dlpack__");
  exchange_name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  gradient_name = PyUnicode_InternFromString("requires_grad");
  version_name = PyUnicode_InternFromString("_version");
  if (!module || !model_type || !session_type || !error_type || !dlpack_name || !exchange_name ||
      !gradient_name || !version_name) {
    return NULL;
  }
  Py_INCREF(error_type);
  if (PyModule_AddObject(module, "Error", error_type) || add_text(module)) return NULL;
  return module;
}
