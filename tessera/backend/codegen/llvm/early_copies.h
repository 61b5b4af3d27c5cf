// What a kernel of a GPU can do before it waits for the kernel before it.
#pragma once

#include <functional>
#include <vector>

#include "tessera/lang/ir/stmt.h"

namespace tessera::codegen {

using IsConstant = std::function<bool(const ir::Buffer&)>;

struct EarlyCopies {
  std::vector<ir::Stmt> early;
  ir::Stmt rest;
};

// Takes the asynchronous copies of constants from the start of `body`, up to the end of the first
// group (further ones would have the first step wait for them): they only write shared memory, and
// what stays before them does not use it.
EarlyCopies split_early_copies(const ir::Stmt& body, const IsConstant& constant);

}  // namespace tessera::codegen
