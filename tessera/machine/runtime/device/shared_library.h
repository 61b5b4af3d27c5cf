// Functions of a library that may be absent.
#pragma once

#include <string>

#include "tessera/support/result.h"

namespace tessera::runtime {

// Stays loaded for the rest of the process: drivers start threads that must not lose their code.
class SharedLibrary {
 public:
  // kUnavailable with the loader's words.
  static Result<SharedLibrary> open(const std::string& name);

  // Sets a function pointer. kUnavailable when the library lacks the symbol.
  template <class F>
  Result<void> find(const char* symbol, F** function) const {
    TESSERA_TRY(void* address, address_of(symbol));
    *function = reinterpret_cast<F*>(address);
    return {};
  }

 private:
  Result<void*> address_of(const char* symbol) const;
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace tessera::runtime
