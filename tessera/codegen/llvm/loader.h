// Puts one relocatable object into this process.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tessera/support/result.h"

namespace tessera::codegen {

// Owns the memory of the code; the code must not run after its destruction.
class LoadedObject {
 public:
  virtual ~LoadedObject() = default;
  virtual void* symbol(const std::string& name) = 0;  // null: not there
};

// Undefined symbols are looked up in the process (libm). kBuildFailed when one is missing.
Result<std::unique_ptr<LoadedObject>> load_object(const std::string& object);

}  // namespace tessera::codegen
