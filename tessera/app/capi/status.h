// Results as statuses of the C interface.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "tessera/app/capi/include/tessera/tessera.h"
#include "tessera/support/result.h"

namespace tessera::capi {

inline tsr_status make_status(std::int32_t code, std::string_view message) {
  tsr_status status;
  status.code = code;
  const std::size_t room = sizeof status.message - 1;
  const std::size_t size = std::min(message.size(), room);
  if (size > 0) std::memcpy(status.message, message.data(), size);
  if (message.size() > room) std::memcpy(status.message + room - 3, "...", 3);
  status.message[size] = '\0';
  return status;
}

inline std::int32_t code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return TSR_INVALID_ARGUMENT;
    case ErrorCode::kUnsupported:
      return TSR_UNSUPPORTED;
    case ErrorCode::kIo:
      return TSR_IO;
    case ErrorCode::kUnavailable:
      return TSR_UNAVAILABLE;
    case ErrorCode::kRunFailed:
      return TSR_RUN_FAILED;
    case ErrorCode::kDataDependent:
      return TSR_DATA_DEPENDENT;
    case ErrorCode::kIllegalSchedule:
    case ErrorCode::kBuildFailed:
      return TSR_BUILD_FAILED;
  }
  return TSR_INTERNAL;
}

template <class Function>
tsr_status guarded(Function function) {
  try {
    const Result<void> result = function();
    if (result.ok()) return make_status(TSR_OK, "");
    return make_status(code_of(result.error().code), result.error().message);
  } catch (const std::bad_alloc&) {
    return make_status(TSR_OUT_OF_MEMORY, "not enough memory");
  } catch (const std::exception& e) {
    return make_status(TSR_INTERNAL, e.what());
  } catch (...) {
    return make_status(TSR_INTERNAL, "unknown exception");
  }
}

inline Error missing(const char* what) {
  return make_error(ErrorCode::kInvalidArgument, "{} must not be NULL", what);
}

inline Result<void> refuse_negative(const char* what, std::int32_t value) {
  if (value >= 0) return {};
  return make_error(ErrorCode::kInvalidArgument, "{} must not be negative, but is {}", what, value);
}

// Options of an older header are shorter: what they do not have keeps its default.
template <class Options>
Result<Options> copy_options(const Options* given) {
  Options options{};
  if (!given) return options;
  if (given->size < sizeof(std::size_t) || given->size > sizeof(Options)) {
    return make_error(ErrorCode::kInvalidArgument, "options: size {} is not that of this struct",
                      given->size);
  }
  std::memcpy(&options, given, given->size);
  return options;
}

}  // namespace tessera::capi
