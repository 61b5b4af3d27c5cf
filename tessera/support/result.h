// Expected failures as values: Result<T> holds a T or an Error with a code and a reason.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tessera/support/check.h"

namespace tessera {

enum class ErrorCode {
  kInvalidArgument,  // bad flag, bad text, bad shape: the user's input
  kUnsupported,      // understood, but not available on this target or in this version
  kIllegalSchedule,  // a step does not apply; search counts it and moves on
  kBuildFailed,      // code generation refused
  kRunFailed,        // running the code failed
  kIo,               // a file could not be read or written
  kDataDependent,    // a shape or branch follows from values that only a run knows
  kUnavailable,      // an optional part (peer, device) is absent
};

// Stable lower-case name used in messages and records, e.g. "illegal_schedule".
const char* to_text(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;

  // The same error with one noun of context in front: "task conv2d: step 4: ...".
  Error with_context(const std::string& context) const { return {code, context + ": " + message}; }
};

template <class... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }

  T& value() & { return require(), *value_; }
  const T& value() const& { return require(), *value_; }
  T&& value() && { return require(), std::move(*value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return error_; }

 private:
  void require() const {
    TESSERA_CHECK(value_.has_value(), "value() of a failed Result: {}", error_.message);
  }

  std::optional<T> value_;
  Error error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace tessera

#define TESSERA_CAT2(a, b) a##b
#define TESSERA_CAT(a, b) TESSERA_CAT2(a, b)

// TESSERA_TRY(auto x, f()): declares x with the value of f(), or returns its error from the caller.
#define TESSERA_TRY(decl, ...)                                                       \
  auto TESSERA_CAT(try_, __LINE__) = (__VA_ARGS__);                                  \
  if (!TESSERA_CAT(try_, __LINE__).ok()) return TESSERA_CAT(try_, __LINE__).error(); \
  decl = std::move(TESSERA_CAT(try_, __LINE__)).value()

// TESSERA_DO(f()): returns the error of a Result<void> from the caller.
#define TESSERA_DO(...)                                                            \
  do {                                                                             \
    if (auto do_result = (__VA_ARGS__); !do_result.ok()) return do_result.error(); \
  } while (false)
