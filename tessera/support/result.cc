#include "tessera/support/result.h"

namespace tessera {

const char* to_text(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kIllegalSchedule:
      return "illegal_schedule";
    case ErrorCode::kBuildFailed:
      return "build_failed";
    case ErrorCode::kRunFailed:
      return "run_failed";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kDataDependent:
      return "data_dependent";
    case ErrorCode::kUnavailable:
      return "unavailable";
  }
  return "unknown";
}

}  // namespace tessera
