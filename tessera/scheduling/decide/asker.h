// Who answers the points of a sketch, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::decide {

// Why a value, by its index, is not legal after the answers so far; null: something legal begins
// with it. Refers to a callable that lives as long as the question is asked.
class Refusal {
 public:
  template <class F>
  Refusal(const F& f)  // NOLINT(google-explicit-constructor): stands for any callable
      : object_(&f), call_([](const void* object, std::int32_t value) -> const char* {
          return (*static_cast<const F*>(object))(value);
        }) {}
  const char* operator()(std::int32_t value) const { return call_(object_, value); }

 private:
  const void* object_;
  const char* (*call_)(const void*, std::int32_t);
};

class Asker {
 public:
  virtual ~Asker() = default;
  // The value to take, by its index.
  virtual std::int32_t ask(std::size_t point, const Refusal& refusal) = 0;
  // True if no further answer matters: a sketch need not go on.
  virtual bool stopped() const { return false; }
};

}  // namespace tessera::decide
