// Expressions compiled to a compact tree that is evaluated lane by lane, and the memory they read.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/lang/interp/scalar.h"
#include "tessera/lang/interp/tiles.h"
#include "tessera/lang/ir/expr.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::interp {

class AccessLog;
struct Threads;

// A buffer at run time.
struct Memory {
  ir::Buffer buffer;
  HostTensor data;
  std::vector<std::uint8_t> defined;    // one flag per element; empty: every element is defined
  std::vector<std::uint8_t> in_flight;  // asynchronous copies not waited for; empty: none
  std::shared_ptr<AccessLog> log;       // who touched what; null where one thread runs
  // Entries of an element in the log, and where those of the first begin: buffers of a block that
  // take each other's place have one log.
  std::size_t log_width = 1, log_begin = 0;

  Scalar get(std::int64_t element) const;
  void set(std::int64_t element, Scalar v);
};

struct Frame {
  std::vector<std::int64_t> vars;               // by slot
  std::vector<std::shared_ptr<Memory>> memory;  // by slot; threads share some of it
  std::optional<Error>
      error;  // the first failure; evaluation continues with zeros until a loop sees it
  // Computes element `element` of memory `slot` when it is read before it is defined; may be empty.
  std::function<void(std::size_t slot, std::int64_t element)> demand;
  std::array<Tile, kTiles> tiles;  // by number
  Threads* threads = nullptr;      // of the block that this one is in; null where one thread runs
  std::size_t thread = 0;          // number in the block
};

// One expression node with its operands resolved to slots.
struct Node {
  ir::ExprKind kind = ir::ExprKind::kIntImm;
  DType dtype = DType::kI64;
  int lanes = 1;
  ir::BinaryOp op = ir::BinaryOp::kAdd;
  ir::Intrinsic fn = ir::Intrinsic::kExp;
  Scalar value{.i = 0};           // immediates; stride of a ramp
  std::size_t slot = 0;           // variable or memory
  std::vector<const Node*> args;  // operands in declaration order; indices of a load
  std::vector<int> picks;
};

// Lane `lane` of the expression. Only the lanes and select branches that are needed are evaluated.
Scalar eval(const Node& node, int lane, Frame& frame);
// Row-major position of memory `slot` at the indices' lane; nothing, and an error in the frame,
// when out of bounds.
std::optional<std::int64_t> element_of(std::size_t slot, const std::vector<const Node*>& indices,
                                       int lane, const char* access, Frame& frame);

// Compiles expressions against declared variables and buffers; owns the nodes.
class Program {
 public:
  std::size_t declare(const ir::Expr& var);  // the same variable again gets a new slot
  std::size_t declare(const ir::Buffer& buffer);
  // Null, and error() set, when the expression uses something undeclared.
  const Node* compile(const ir::Expr& e);
  std::optional<std::size_t> slot_of(const ir::Buffer& buffer);
  const std::optional<Error>& error() const { return error_; }
  // Variables zero, memory without data.
  Frame make_frame() const;

 private:
  bool fill(const ir::Expr& e, Node* node);
  bool fill_args(const std::vector<ir::Expr>& args, Node* node);
  void fail(const std::string& message);

  std::deque<Node> nodes_;
  std::map<const ir::ExprNode*, std::size_t> vars_;
  std::map<ir::Buffer, std::size_t> buffers_;
  std::vector<ir::Buffer> memory_;
  std::size_t var_count_ = 0;
  std::optional<Error> error_;
};

}  // namespace tessera::interp
