// One ir::Func -> LLVM functions in a module: the entry and one body function per parallel loop. Or
// one ir::Launch -> a kernel of a GPU.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/backend/codegen/codegen.h"
#include "tessera/backend/codegen/llvm/gpu_dialect.h"
#include "tessera/backend/codegen/llvm/index.h"
#include "tessera/backend/codegen/llvm/index_range.h"
#include "tessera/backend/codegen/llvm/ops.h"
#include "tessera/backend/codegen/llvm/workspace.h"
#include "tessera/lang/ir/launch.h"
#include "tessera/lang/ir/shared_places.h"
#include "tessera/lang/ir/stmt.h"

namespace llvm {
class BasicBlock;
class Instruction;
class MDNode;
class PHINode;
class StructType;
}  // namespace llvm

namespace tessera::codegen {

// Where code for CPUs and GPUs differs, beside how a function begins.
struct EmitPolicy {
  bool narrow_indices;   // indices in 32 bits where their ranges allow
  bool aligned_vectors;  // vector accesses state the alignment that follows from their index
  bool hidden_pointers;  // LLVM does not see how pointers of outer loops are made
  bool transposes;       // strided vectors side by side become dense ones and shuffles
  bool prefetches;       // lines that are wanted soon can be asked for
};
inline constexpr EmitPolicy kCpuPolicy = {false, false, true, true, true};
inline constexpr EmitPolicy kGpuPolicy = {true, true, false, false, false};

// Whether warp groups multiply: their tiles begin at multiples of ir::kTileAlign.
bool has_group_products(const ir::Stmt& body);
// Whether the statement is one of the intrinsics of tiles; whether any below it is.
bool is_tile_statement(const ir::Stmt& s);
bool uses_tiles(const ir::Stmt& s);

class Emitter {
 public:
  // `func` and `target` must outlive the emitter.
  Emitter(llvm::Module& module, llvm::IRBuilderBase& builder, const target::Target& target,
          const ir::Func& func);
  // `launch` becomes a kernel of the symbol `name`. Where it waits for the one before it, it reads
  // `constants` earlier.
  Emitter(llvm::Module& module, llvm::IRBuilderBase& builder, const target::Target& target,
          const ir::Launch& launch, std::string name, std::vector<ir::Buffer> constants);

  // Leaves the function `func.name` in the module.
  Result<KernelInfo> emit();
  // Leaves the kernel in the module; its arguments are the launch's params in order.
  Result<runtime::LaunchInfo> emit_launch();
  // Version of PTX, times ten, that its instructions need at least; 0: the target's.
  int ptx() const { return ptx_; }

 private:
  struct RunningPointer {
    llvm::PHINode* value;
    llvm::Type* element;
    std::int64_t step;  // elements per iteration
  };
  // Values that do not change within one iteration of a loop are computed once, at its top.
  struct LoopScope {
    llvm::BasicBlock* top = nullptr;  // ends in a branch to the body
    bool has_loops = false;           // it contains other loops
    std::unordered_map<const ir::ExprNode*, llvm::Value*> values;
    std::map<std::vector<std::int64_t>, llvm::Value*>
        pointers;  // key: buffer, then (factor, coefficient)..., then the anchor of a running one
    // Of loops only:
    const ir::ExprNode* var = nullptr;
    llvm::Value* begin = nullptr;         // first value of var
    llvm::BasicBlock* before = nullptr;   // enters the loop
    std::vector<RunningPointer> running;  // advanced at the end of each iteration
  };
  struct Bound {
    llvm::Value* value = nullptr;
    int depth = 0;                  // index into scopes: where the value is available
    llvm::Value* narrow = nullptr;  // of variables that fit: the same in 32 bits
  };
  // State of the LLVM function being written.
  struct Frame {
    llvm::Function* function = nullptr;
    std::vector<LoopScope> scopes;  // scopes[0] is the entry of the function
    std::unordered_map<const ir::ExprNode*, Bound> vars;
    std::unordered_map<const ir::BufferNode*, Bound> buffers;
    llvm::Value* workspace = nullptr;
    llvm::Value* worker = nullptr;  // start of this worker's part; null outside parallel loops
    llvm::Value* host = nullptr;
    bool tiles = false;  // their shapes are set for what is being emitted
  };
  // Neighbouring scalars that are all broadcast in one straight-line region: loaded once, taken by
  // lane.
  struct LaneGroup {
    ir::Buffer buffer;
    Linear at;
    int units;       // vector lanes of the group
    int unit_lanes;  // elements per unit
    llvm::Value* loaded = nullptr;
  };
  // Broadcast loads whose addresses differ only by a constant.
  struct SplatFamily {
    ir::Buffer buffer;
    Linear at;
    int unit;                                                    // elements per lane
    std::map<std::int64_t, std::vector<const ir::Load*>> loads;  // by constant offset
  };
  // Strided vectors of one buffer whose addresses differ only by a constant.
  struct StridedFamily {
    ir::Buffer buffer;
    Linear at;
    std::int64_t stride;
    int lanes;
    std::map<std::int64_t, std::vector<const void*>> nodes;  // Loads or Stores by constant offset
  };
  // A matrix in memory with dense rows, `stride` apart, whose columns are single loads or stores.
  struct Transpose {
    ir::Buffer buffer;
    Linear at;
    std::int64_t stride;
    int rows;
    std::vector<llvm::Value*> columns;  // of loads: once `done`; of stores: null until given
    bool done;
  };
  struct Memo {
    std::unordered_map<const ir::ExprNode*, llvm::Value*> values, narrow;
  };

  llvm::Value* fail(ErrorCode code, std::string message, ir::Type type);
  void start();  // before the entry is made

  // emit_expr.cc
  llvm::Value* emit(const ir::Expr& e);
  llvm::Value* emit_node(const ir::Expr& e);
  llvm::Value* emit_broadcast(const ir::Broadcast& copy);
  llvm::Value* emit_cast(const ir::Cast& cast);
  llvm::Value* emit_ramp(const ir::Ramp& ramp);
  llvm::Value* emit_call(const ir::Call& call);
  llvm::Value* emit_select(const ir::Select& select);
  llvm::Value* emit_lanes_select(const ir::Select& select, llvm::Value* cond);
  llvm::Value* emit_each_lane(const ir::Select& select, llvm::Value* cond);
  llvm::Value* branch(llvm::Value* cond, const std::function<llvm::Value*()>& on_true,
                      const std::function<llvm::Value*()>& on_false);
  llvm::Value* emit_lazily(const ir::Expr& e);
  llvm::Value* masked_load(const ir::Select& select, llvm::Value* cond);
  llvm::Value* load_or(const ir::Select& select, llvm::Value* cond);
  bool may_fault(const ir::Expr& e, const std::vector<const ir::ExprNode*>& made = {}) const;
  bool may_make_both(const ir::Select& select) const;
  llvm::Value* emit_hoisted(const ir::Expr& e, int depth);
  int depth_of(const ir::Expr& e) const;        // -1: must be computed in place
  llvm::Value* emit_narrow(const ir::Expr& e);  // an i64 scalar as i32; null where it may not fit
  llvm::Value* emit_narrow_at(const ir::Expr& e, int depth);  // at the top of that scope
  llvm::Value* widened(llvm::Value* narrow, const ir::Expr& e);

  // emit_memory.cc
  llvm::Value* pointer(const ir::Buffer& buffer, const Linear& at);
  llvm::Value* extend_pointer(llvm::Value* base, const ir::Buffer& buffer,
                              const std::vector<Linear::Term>& terms, int depth);
  llvm::Value* running_pointer(llvm::Value* base, const ir::Buffer& buffer, std::int64_t step,
                               std::int64_t anchor, LoopScope& scope);
  std::int64_t anchor_of(const ir::Buffer& buffer, std::int64_t offset) const;
  llvm::Value* opaque_pointer(llvm::Value* p, const LoopScope& scope);
  llvm::Value* offset_pointer(llvm::Value* base, const ir::Buffer& buffer, std::int64_t elements);
  llvm::Value* emit_load(const ir::Load& load);
  llvm::Value* load_dense(const ir::Buffer& buffer, const Linear& at, int lanes);
  llvm::Value* load_at(const ir::Buffer& buffer, llvm::Value* address, int lanes,
                       std::int64_t align_bytes);
  std::int64_t align_bytes(const ir::Buffer& buffer, const Linear& at, int lanes) const;
  llvm::Value* load_pairs(const ir::Buffer& buffer, const Place& place, int lanes);
  llvm::Value* gather(const ir::Load& load, const std::optional<Place>& place);
  void emit_store(const ir::Store& store);
  void store_at(const ir::Buffer& buffer, llvm::Value* address, llvm::Value* value, int lanes,
                std::int64_t align_bytes);
  std::vector<llvm::Value*> lane_pointers(const ir::Buffer& buffer,
                                          const std::vector<ir::Expr>& indices,
                                          const std::optional<Place>& place, int lanes);
  void annotate(llvm::Instruction* access, const ir::Buffer& buffer);
  void make_alias_scopes();
  void find_lane_groups(const std::vector<const ir::StmtNode*>& region);
  void group_lanes(const SplatFamily& family);
  std::vector<std::int64_t> address_key(const ir::Buffer& buffer, const Linear& at);
  llvm::Value* lane_group_splat(const ir::Load& load, int total_lanes);  // null: not in a group
  ir::Expr canonical(const ir::Expr& e);
  std::size_t number_of(const ir::Expr& factor);

  // emit_transpose.cc
  void find_transposes(const std::vector<const ir::StmtNode*>& region);
  void find_transposed_stores(const std::vector<const ir::Store*>& stores);
  bool add_strided(std::map<std::vector<std::int64_t>, StridedFamily>* families,
                   const ir::Buffer& buffer, const std::vector<ir::Expr>& indices, int lanes,
                   const void* node);  // false: not a strided vector
  void cut_transposes(const StridedFamily& family);
  llvm::Value* transposed_load(const ir::Load& load);  // null: not part of a transpose
  bool transposed_store(const ir::Store& store, llvm::Value* value);

  // emit_launch.cc
  void make_kernel_entry();
  bool is_constant(const ir::Buffer& param) const;
  void emit_waiting_body();
  void keep_inputs(const llvm::Instruction* wait);
  llvm::Value* make_shared(const ir::SharedPlaces& places, std::int64_t* dynamic_bytes);
  void bind_id(const ir::Expr& var, std::int64_t extent,
               const std::function<llvm::CallInst*()>& read);
  void emit_barrier();
  llvm::Value* emit_thread_call(const ir::Call& call);  // null: not an intrinsic of threads
  llvm::Value* emit_shuffle_xor(const ir::Call& call);
  void emit_async_copy(const ir::Load& to, const ir::Load& from, llvm::Value* wanted = nullptr);
  bool copies_asynchronously(const ir::Load& to, const ir::Load& from) const;
  bool emit_copy_or_zeros(const ir::If& branch);  // false: nothing is emitted
  bool emit_guarded_copies(const ir::If& branch);
  bool copies_single_elements() const;
  bool is_copy_or_zeros(const ir::If& branch) const;
  bool only_copies(const ir::Stmt& s) const;

  // emit_matrix.cc
  llvm::Value* emit_matrix(const ir::Call& call);
  llvm::Value* emit_mma(const ir::Call& call);
  std::vector<llvm::Value*> matrix_words(const ir::Expr& operand);
  bool emit_group_product(const ir::Store& store);  // false: it is none
  // For all but the last `left`; with `copies`, for what was copied to shared memory, too.
  void wait_for_products(std::int64_t left, bool copies);
  std::vector<llvm::Value*> load_sums(const ir::Buffer& buffer, const Linear& first,
                                      std::int64_t count);
  void store_sums(const ir::Buffer& buffer, const Linear& first,
                  const std::vector<llvm::Value*>& sums);

  // emit_tiles.cc
  bool configure_tiles(const ir::Stmt& s);
  void release_tiles(const ir::Stmt& body);
  void emit_tile(const ir::Call& call);
  void emit_tile_dot(const ir::Call& call);

  // emit_stmt.cc
  void make_entry();
  void emit_statement(const ir::Stmt& s);
  void emit_stmt(const ir::Stmt& s);
  void emit_block(const std::vector<ir::Stmt>& stmts);
  void emit_allocate(const ir::Allocate& allocate);
  void emit_if(const ir::If& branch);
  void emit_for(const ir::For& loop);
  void note_range(const ir::For& loop);
  void emit_unrolled(const ir::For& loop);
  void emit_loop(const ir::Expr& var, llvm::Value* begin, llvm::Value* count, bool may_be_empty,
                 const ir::Stmt& body);
  void close_loop(llvm::PHINode* index, llvm::PHINode* left, llvm::BasicBlock* top,
                  llvm::BasicBlock* exit);
  void emit_parallel(const ir::For& loop);
  llvm::Function* emit_body(const ir::For& loop, const std::vector<const ir::ExprNode*>& vars,
                            const std::vector<const ir::BufferNode*>& buffers);
  llvm::BasicBlock* new_block(const char* name);
  void open_scope(llvm::BasicBlock* top);
  llvm::Value* entry_alloca(llvm::Type* type);

  llvm::Module& module_;
  llvm::IRBuilderBase& b_;
  const target::Target& target_;
  const std::string name_;
  const std::vector<ir::Buffer>& params_;
  const ir::Stmt body_;
  const ir::Launch* launch_ = nullptr;  // null: a Func
  const std::vector<ir::Buffer> constants_;
  const EmitPolicy policy_;
  const GpuDialect* const dialect_ = nullptr;  // of launches
  Ops ops_;
  Workspace workspace_;
  Frame frame_;
  VarRanges ranges_;    // of variables in scope, where known
  Memo memo_;           // values of the current statement
  int lazy_depth_ = 0;  // > 0 inside a branch of a lazy select
  std::vector<LaneGroup> groups_;
  std::unordered_map<const ir::ExprNode*, std::pair<std::size_t, int>>
      group_of_;  // load -> group, lane
  std::vector<Transpose> transposes_;
  std::unordered_map<const void*, std::pair<std::size_t, std::size_t>>
      transpose_of_;  // Load or Store -> transpose, column
  std::unordered_map<std::size_t, std::vector<ir::Expr>> canonical_;
  std::unordered_map<const ir::ExprNode*, std::size_t> factor_numbers_;
  std::vector<ir::Expr> keep_alive_;  // maps above hold bare nodes
  std::unordered_map<const ir::BufferNode*, std::pair<llvm::MDNode*, llvm::MDNode*>> alias_;
  const bool grouped_;                 // warp groups multiply
  bool uses_tiles_ = false;            // tile registers
  std::array<DType, 8> tile_types_{};  // of the operands that were loaded last
  bool copies_ = false;                // a value for shared memory is emitted
  int ptx_ = 0;
  std::set<ir::Buffer> group_sums_;  // of their products so far
  Error error_;
  llvm::Value* copy_guard_ = nullptr;  // whether the copies in between are made; null: they are
  bool failed_ = false;
};

}  // namespace tessera::codegen
