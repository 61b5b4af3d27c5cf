/* Errors as values, and what every part of an artifact needs to make them. */
#ifndef TESSERA_ARTIFACT_STATUS_C_
#define TESSERA_ARTIFACT_STATUS_C_

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tessera/backend/artifact/runtime/program.h"

static tsr_status tsr_ok(void) {
  tsr_status status;
  status.code = TSR_OK;
  status.message[0] = '\0';
  return status;
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static tsr_status
tsr_fail(int32_t code, const char* format, ...) {
  tsr_status status;
  va_list arguments;
  int length;
  status.code = code;
  va_start(arguments, format);
  length = vsnprintf(status.message, sizeof status.message, format, arguments);
  va_end(arguments);
  if (length >= (int)sizeof status.message) {
    memcpy(status.message + sizeof status.message - 4, "...", 4);
  }
  return status;
}

static int tsr_aligned(const void* p) { return ((uintptr_t)p & (TSR_ALIGNMENT - 1)) == 0; }

/* One run of a context at a time. */
static tsr_status tsr_begin(int32_t* busy) {
  if (__atomic_exchange_n(busy, 1, __ATOMIC_ACQUIRE)) {
    return tsr_fail(TSR_RUN_FAILED, "the context is running in another thread");
  }
  return tsr_ok();
}

static void tsr_end(int32_t* busy) { __atomic_store_n(busy, 0, __ATOMIC_RELEASE); }

#endif
