/* What the sources of tessera._native share. */
#ifndef TESSERA_PYTHON_NATIVE_H_
#define TESSERA_PYTHON_NATIVE_H_

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <pythread.h>
#include <string.h>
#include <tessera/tessera.h>

#define TESSERA_INSIDE __attribute__((visibility("hidden")))

extern TESSERA_INSIDE const tsr_api* api;
/* Sets tessera.Error; NULL. */
TESSERA_INSIDE PyObject* raise_status(const tsr_status* status);
TESSERA_INSIDE void free_object(PyObject* self);
/* Adds open_text to the module; -1 with an exception set. */
TESSERA_INSIDE int add_text(PyObject* module);

#endif
