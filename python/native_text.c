/* Texts of language models as a Python type. One call at a time: others wait for it. */
#include "native.h"

typedef struct {
  PyObject_HEAD tsr_text* handle;
  PyThread_type_lock lock;
} Text;

static PyTypeObject* text_type;

static PyObject* wrap_text(tsr_text* handle) {
  allocfunc make = (allocfunc)PyType_GetSlot(text_type, Py_tp_alloc);
  PyThread_type_lock lock = PyThread_allocate_lock();
  Text* self = lock ? (Text*)make(text_type, 0) : NULL;
  if (!self) {
    if (lock) PyThread_free_lock(lock);
    api->free_text(handle);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  }
  self->handle = handle;
  self->lock = lock;
  return (PyObject*)self;
}

static void text_dealloc(PyObject* self) {
  Text* text = (Text*)self;
  api->free_text(text->handle);
  PyThread_free_lock(text->lock);
  free_object(self);
}

/* open_text(model, context, threads, activations) */
static PyObject* open_text(PyObject* module, PyObject* arguments) {
  tsr_text_options options;
  tsr_text* handle = NULL;
  tsr_status status;
  const char* model;
  long long context;
  (void)module;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  if (!PyArg_ParseTuple(arguments, "sLis", &model, &context, &options.threads,
                        &options.activations)) {
    return NULL;
  }
  options.context = context;
  Py_BEGIN_ALLOW_THREADS status = api->open_text(model, &options, &handle);
  Py_END_ALLOW_THREADS return status.code == TSR_OK ? wrap_text(handle) : raise_status(&status);
}

static PyObject* text_another(PyObject* self, PyObject* unused) {
  Text* text = (Text*)self;
  tsr_text* handle = NULL;
  tsr_status status;
  (void)unused;
  Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(text->lock, WAIT_LOCK);
  status = api->another_text(text->handle, &handle);
  PyThread_release_lock(text->lock);
  Py_END_ALLOW_THREADS return status.code == TSR_OK ? wrap_text(handle) : raise_status(&status);
}

/* The number of tokens in a sequence, which *tokens then has; -1 with an exception set. */
static Py_ssize_t take_tokens(PyObject* sequence, int32_t** tokens) {
  const Py_ssize_t count = PySequence_Size(sequence);
  Py_ssize_t i;
  *tokens = NULL;
  if (count < 0) return -1;
  *tokens = PyMem_Malloc(sizeof(int32_t) * (size_t)(count > 0 ? count : 1));
  if (!*tokens) {
    PyErr_NoMemory();
    return -1;
  }
  for (i = 0; i < count; ++i) {
    PyObject* item = PySequence_GetItem(sequence, i);
    PyObject* number = item ? PyNumber_Index(item) : NULL;
    const long token = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(item);
    Py_XDECREF(number);
    if (!PyErr_Occurred() && token != (int32_t)token)
      PyErr_Format(PyExc_ValueError, "%ld is not a token", token);
    if (PyErr_Occurred()) {
      PyMem_Free(*tokens);
      *tokens = NULL;
      return -1;
    }
    (*tokens)[i] = (int32_t)token;
  }
  return count;
}

/* step(tokens): the logits as bytes of f32. */
static PyObject* text_step(PyObject* self, PyObject* sequence) {
  Text* text = (Text*)self;
  int32_t* tokens;
  const Py_ssize_t count = take_tokens(sequence, &tokens);
  const float* logits = NULL;
  tsr_text_info info;
  tsr_status status;
  PyObject* out = NULL;
  if (count < 0) return NULL;
  Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(text->lock, WAIT_LOCK);
  status = api->step(text->handle, tokens, (size_t)count, &logits);
  if (status.code == TSR_OK) status = api->text_info(text->handle, &info);
  Py_END_ALLOW_THREADS PyMem_Free(tokens);
  if (status.code == TSR_OK) {
    out = PyBytes_FromStringAndSize((const char*)logits,
                                    (Py_ssize_t)sizeof(float) * (Py_ssize_t)info.vocabulary);
  }
  PyThread_release_lock(text->lock);
  return status.code == TSR_OK ? out : raise_status(&status);
}

static PyObject* text_rewind(PyObject* self, PyObject* number) {
  Text* text = (Text*)self;
  const long long position = PyLong_AsLongLong(number);
  tsr_status status;
  if (PyErr_Occurred()) return NULL;
  Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(text->lock, WAIT_LOCK);
  status = api->rewind_text(text->handle, position);
  PyThread_release_lock(text->lock);
  Py_END_ALLOW_THREADS if (status.code != TSR_OK) return raise_status(&status);
  Py_INCREF(Py_None);
  return Py_None;
}

static PyObject* text_warm_up(PyObject* self, PyObject* number) {
  Text* text = (Text*)self;
  const long long tokens = PyLong_AsLongLong(number);
  tsr_status status;
  if (PyErr_Occurred()) return NULL;
  Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(text->lock, WAIT_LOCK);
  status = api->warm_up_text(text->handle, tokens);
  PyThread_release_lock(text->lock);
  Py_END_ALLOW_THREADS if (status.code != TSR_OK) return raise_status(&status);
  Py_INCREF(Py_None);
  return Py_None;
}

/* info(): position, capacity, vocabulary. */
static PyObject* text_get_info(PyObject* self, PyObject* unused) {
  Text* text = (Text*)self;
  tsr_text_info info;
  tsr_status status;
  (void)unused;
  Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(text->lock, WAIT_LOCK);
  status = api->text_info(text->handle, &info);
  PyThread_release_lock(text->lock);
  Py_END_ALLOW_THREADS if (status.code != TSR_OK) return raise_status(&status);
  return Py_BuildValue("LLL", (long long)info.position, (long long)info.capacity,
                       (long long)info.vocabulary);
}

/* What is to be tokens: a text, with control tokens or without, or messages. */
typedef struct {
  const char* utf8;
  size_t bytes;
  int control_tokens;
  const tsr_message* messages; /* NULL: a text */
  size_t num_messages;
} Words;

static tsr_status tokens_of(const tsr_text* text, const Words* words, int32_t* tokens, size_t room,
                            size_t* count) {
  if (words->messages)
    return api->encode_chat(text, words->messages, words->num_messages, tokens, room, count);
  return (words->control_tokens ? api->encode_prompt : api->encode)(text, words->utf8, words->bytes,
                                                                    tokens, room, count);
}

/* A list of the tokens. */
static PyObject* encoded(const tsr_text* text, const Words* words) {
  size_t room, count = 0, i;
  int32_t* tokens;
  tsr_status status;
  PyObject* out = NULL;
  /* Hardly a text has more tokens than bytes, and those around it; else it is asked again. */
  for (room = words->bytes + 8;; room = count) {
    tokens = PyMem_Malloc(sizeof(int32_t) * room);
    if (!tokens) return PyErr_NoMemory();
    status = tokens_of(text, words, tokens, room, &count);
    if (status.code != TSR_OK || count <= room) break;
    PyMem_Free(tokens);
  }
  if (status.code == TSR_OK) out = PyList_New((Py_ssize_t)count);
  for (i = 0; out && i < count; ++i) {
    PyObject* token = PyLong_FromLong(tokens[i]);
    if (!token || PyList_SetItem(out, (Py_ssize_t)i, token)) Py_CLEAR(out);
  }
  PyMem_Free(tokens);
  return status.code == TSR_OK ? out : raise_status(&status);
}

/* encode(text, control_tokens) */
static PyObject* text_encode(PyObject* self, PyObject* arguments) {
  Words words;
  Py_ssize_t bytes;
  memset(&words, 0, sizeof words);
  if (!PyArg_ParseTuple(arguments, "s#p", &words.utf8, &bytes, &words.control_tokens)) return NULL;
  words.bytes = (size_t)bytes;
  return encoded(((Text*)self)->handle, &words);
}

/* encode_chat(messages): a tuple of pairs (role, text), which keeps their bytes in memory. */
static PyObject* text_encode_chat(PyObject* self, PyObject* pairs) {
  Words words;
  tsr_message* messages;
  PyObject* out = NULL;
  Py_ssize_t i;
  const Py_ssize_t count = PyTuple_Size(pairs);
  memset(&words, 0, sizeof words);
  if (count < 0) return NULL;
  messages = PyMem_Malloc(sizeof(tsr_message) * (size_t)(count > 0 ? count : 1));
  if (!messages) return PyErr_NoMemory();
  for (i = 0; i < count; ++i) {
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "ss#", &messages[i].role, &messages[i].bytes,
                          &bytes)) {
      break;
    }
    messages[i].count = (size_t)bytes;
    words.bytes += (size_t)bytes + 16; /* with marks */
  }
  if (i == count) {
    words.messages = messages;
    words.num_messages = (size_t)count;
    out = encoded(((Text*)self)->handle, &words);
  }
  PyMem_Free(messages);
  return out;
}

/* token(number): its bytes, and whether it ends a text. */
static PyObject* text_token(PyObject* self, PyObject* number) {
  const long token = PyLong_AsLong(number);
  const char* bytes = NULL;
  size_t count = 0;
  int32_t ends = 0;
  tsr_status status;
  if (PyErr_Occurred()) return NULL;
  status = api->token_bytes(((Text*)self)->handle, token == (int32_t)token ? (int32_t)token : -1,
                            &bytes, &count, &ends);
  if (status.code != TSR_OK) return raise_status(&status);
  return Py_BuildValue("y#O", bytes ? bytes : "", (Py_ssize_t)count, ends ? Py_True : Py_False);
}

/* pick(temperature, top_k, top_p, min_p, repeat_penalty, seed) */
static PyObject* text_pick(PyObject* self, PyObject* arguments) {
  Text* text = (Text*)self;
  tsr_sampling how;
  tsr_status status;
  int32_t token = 0;
  long long top_k;
  unsigned long long seed;
  memset(&how, 0, sizeof how);
  how.size = sizeof how;
  if (!PyArg_ParseTuple(arguments, "dLdddK", &how.temperature, &top_k, &how.top_p, &how.min_p,
                        &how.repeat_penalty, &seed)) {
    return NULL;
  }
  how.top_k = top_k;
  how.seed = seed;
  Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(text->lock, WAIT_LOCK);
  status = api->pick(text->handle, &how, &token);
  PyThread_release_lock(text->lock);
  Py_END_ALLOW_THREADS return status.code == TSR_OK ? PyLong_FromLong(token)
                                                    : raise_status(&status);
}

static PyMethodDef text_methods[] = {
    {"another", text_another, METH_NOARGS, NULL},    {"step", text_step, METH_O, NULL},
    {"rewind", text_rewind, METH_O, NULL},           {"warm_up", text_warm_up, METH_O, NULL},
    {"info", text_get_info, METH_NOARGS, NULL},      {"encode", text_encode, METH_VARARGS, NULL},
    {"encode_chat", text_encode_chat, METH_O, NULL}, {"token", text_token, METH_O, NULL},
    {"pick", text_pick, METH_VARARGS, NULL},         {NULL, NULL, 0, NULL}};
static PyType_Slot text_slots[] = {
    {Py_tp_dealloc, (void*)text_dealloc}, {Py_tp_methods, text_methods}, {0, NULL}};
static PyType_Spec text_spec = {"tessera._native.Text", sizeof(Text), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, text_slots};
static PyMethodDef open_function = {"open_text", open_text, METH_VARARGS, NULL};

int add_text(PyObject* module) {
  PyObject* function = PyCFunction_NewEx(&open_function, NULL, NULL);
  text_type = (PyTypeObject*)PyType_FromSpec(&text_spec);
  if (!function || !text_type) return -1;
  return PyModule_AddObject(module, "open_text", function);
}
