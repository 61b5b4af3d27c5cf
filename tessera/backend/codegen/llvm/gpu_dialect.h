// What kernels of a GPU say in the words of one vendor: the emitter calls these functions and knows
// no intrinsic or assembly of a GPU itself.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/lang/ir/launch.h"
#include "tessera/machine/target/matrix_instructions.h"

namespace llvm {
class CallInst;
class Function;
class IRBuilderBase;
class Instruction;
class Value;
}  // namespace llvm

namespace tessera::codegen {

class GpuDialect {
 public:
  using Builder = llvm::IRBuilderBase;
  using Value = llvm::Value;
  virtual ~GpuDialect() = default;

  // Address spaces, and the most shared memory whose size is part of the kernel: more is asked for
  // at the launch.
  virtual unsigned global_space() const = 0;
  virtual unsigned shared_space() const = 0;
  virtual std::int64_t most_static_shared() const = 0;

  // Marks a function as a kernel of blocks of that size. `at_once`: blocks that a multiprocessor
  // should hold, so that threads may have as many registers as that leaves; 0: left open.
  virtual void mark_kernel(llvm::Function* f, const std::array<std::int64_t, 3>& block,
                           std::int64_t at_once) const = 0;
  virtual llvm::CallInst* block_id(Builder& b, std::size_t dimension) const = 0;   // 32 bits
  virtual llvm::CallInst* thread_id(Builder& b, std::size_t dimension) const = 0;  // 32 bits

  // Whether kernels take three more arguments, for fetch().
  virtual bool fetches(const target::Target& target) const = 0;
  // Brings bytes into the second cache that a kernel behind this one will read: of those from
  // `begin` to `end`, each block asks for its `share` and does not wait.
  virtual void fetch(Builder& b, const ir::Launch& launch, Value* begin, Value* end,
                     Value* share) const = 0;
  // Of kernels that start while the one before them ends (target::kernels_wait).
  virtual llvm::Instruction* wait_for_kernel(Builder& b) const = 0;
  virtual void let_next_start(Builder& b) const = 0;

  virtual void barrier(Builder& b) const = 0;
  // For the `threads` around this one, whole warps.
  virtual void group_barrier(Builder& b, std::int64_t threads, std::int64_t warp) const = 0;
  virtual Value* shuffle_xor(Builder& b, Value* word, std::uint32_t mask) const = 0;  // 32 bits

  // Copies from device to shared memory. Where the target has none, they are loads and stores.
  virtual bool copies_asynchronously(const target::Target& target, std::int64_t bytes) const = 0;
  struct Copy {
    Value *to, *from;
    std::int64_t bytes;
    Value* wanted = nullptr;  // where false, zeros are stored
    Value* guard = nullptr;   // where false, nothing is
  };
  virtual void async_copy(Builder& b, const Copy& copy) const = 0;
  virtual void async_commit(Builder& b, const target::Target& target) const = 0;
  virtual void async_wait(Builder& b, const target::Target& target, std::int64_t groups) const = 0;

  // Four words of ir::Intrinsic::kMatrixRows (kMatrixColumns with `transposed`): a struct.
  virtual llvm::CallInst* load_matrix(Builder& b, Value* address, bool transposed) const = 0;
  // A word of an operand as products take it.
  virtual Value* rounded(Builder& b, DType type, Value* word) const = 0;
  // One product of fragments: words of both operands, and what it adds to, as ir::Intrinsic::kMma
  // has them. The new sums.
  struct Fragments {
    DType a_type, b_type;
    std::vector<Value*> a, b, sums;
  };
  virtual std::vector<Value*> multiply(Builder& b, const target::MatrixInstruction& instruction,
                                       const Fragments& fragments) const = 0;
  // Products of a warp group, which go on after they are started. Sums stay in registers from the
  // first product to the wait: both take them and give them back.
  struct Tile {
    DType type;
    Value* value;
    bool rows;  // the elements of a sum are side by side
  };
  virtual Value* tile(Builder& b, Value* address, bool rows) const = 0;  // by its first element
  virtual std::vector<Value*> multiply_tiles(Builder& b,
                                             const target::MatrixInstruction& instruction,
                                             const std::array<Tile, 2>& tiles,
                                             const std::vector<Value*>& sums) const = 0;
  // For all products but the last `left`; with `copies`, tensor cores see what was copied to shared
  // memory before.
  virtual std::vector<Value*> wait_for_products(Builder& b, std::int64_t left, bool copies,
                                                const std::vector<Value*>& sums) const = 0;

  // Of f32, within two units in the last place.
  virtual Value* quotient(Builder& b, Value* x, Value* y) const = 0;
  virtual Value* square_root(Builder& b, Value* x) const = 0;
  // Minimum and maximum of f16 and f32 that keep NaN are instructions.
  virtual bool keeps_nan(const target::Target& target) const = 0;
};

// Of targets whose kernels LLVM compiles; null for CPUs.
const GpuDialect* gpu_dialect(const target::Target& target);

const GpuDialect& nvvm();  // NVIDIA

}  // namespace tessera::codegen
