// Statements compiled once: the form in which run_func.cc and run_launch.cc execute them.
#pragma once

#include <memory>
#include <vector>

#include "tessera/lang/interp/program.h"
#include "tessera/lang/ir/stmt.h"

namespace tessera::interp {

// One statement with its expressions compiled.
struct Action {
  ir::StmtKind kind = ir::StmtKind::kBlock;
  std::size_t slot = 0;         // loop variable, stored or allocated memory
  const Node* value = nullptr;  // extent, condition, stored or evaluated value
  std::vector<const Node*> indices;
  std::vector<std::unique_ptr<Action>>
      children;  // body; branches (the second may be absent); statements
};

// Null, and an error in the program, when the statement uses something undeclared.
std::unique_ptr<Action> compile_stmt(const ir::Stmt& s, Program& program);

// Count, types and shapes of what is given for the parameters of `name`.
Result<void> check_params(const std::string& name, const std::vector<ir::Buffer>& want,
                          const std::vector<HostTensor>& given);

}  // namespace tessera::interp
