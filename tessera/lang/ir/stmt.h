// Statements of the loop IR, and the function that holds them. Semantics:
// tessera/lang/ir/README.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/lang/ir/expr.h"

namespace tessera::ir {

#define TESSERA_STMT_KINDS(V) V(For) V(Store) V(Block) V(If) V(Allocate) V(Evaluate) V(Barrier)

enum class StmtKind : std::uint8_t {
#define TESSERA_V(name) k##name,
  TESSERA_STMT_KINDS(TESSERA_V)
#undef TESSERA_V
};

struct StmtNode {
  explicit StmtNode(StmtKind k) : kind(k) {}
  mutable std::atomic<std::int32_t> refs{0};
  StmtKind kind;
};

void destroy(const StmtNode* node);

class Stmt {
 public:
  Stmt() = default;
  explicit Stmt(const StmtNode* node) : node_(node) { retain(); }
  Stmt(const Stmt& o) : node_(o.node_) { retain(); }
  Stmt(Stmt&& o) noexcept : node_(std::exchange(o.node_, nullptr)) {}
  Stmt& operator=(Stmt o) noexcept { return std::swap(node_, o.node_), *this; }
  ~Stmt() {
    if (node_ && node_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(node_);
  }

  explicit operator bool() const { return node_ != nullptr; }
  bool same_as(const Stmt& o) const { return node_ == o.node_; }
  const StmtNode* get() const { return node_; }
  StmtKind kind() const { return node_->kind; }
  template <class T>
  const T* as() const {
    return node_ && node_->kind == T::kKind ? static_cast<const T*>(node_) : nullptr;
  }

 private:
  void retain() const {
    if (node_) node_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  const StmtNode* node_ = nullptr;
};

enum class LoopKind : std::uint8_t {
  kSerial,
  kParallel,    // iterations are independent and may run at the same time
  kVectorized,  // constant extent; replaced by vector code
  kUnrolled,    // constant extent; replaced by copies of the body
  kBlockX,
  kBlockY,
  kBlockZ,
  kThreadX,
  kThreadY,
  kThreadZ,
  kVThread,  // GPU bindings
};

// Runs body for var = 0, 1, ..., extent-1, in this order unless the kind says otherwise.
struct For : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kFor;
  static Stmt make(Expr var, Expr extent, LoopKind loop_kind, Stmt body);
  static Stmt make(Expr var, std::int64_t extent, LoopKind loop_kind, Stmt body);
  Expr var;     // a Var, i64
  Expr extent;  // i64; usually a constant
  LoopKind loop_kind;
  Stmt body;
  For(Expr v, Expr e, LoopKind k, Stmt b)
      : StmtNode(kKind),
        var(std::move(v)),
        extent(std::move(e)),
        loop_kind(k),
        body(std::move(b)) {}
};

// buffer[indices] = value; the value's lanes equal those of the last index.
struct Store : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kStore;
  static Stmt make(Buffer buffer, std::vector<Expr> indices, Expr value);
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
  Store(Buffer b, std::vector<Expr> i, Expr v)
      : StmtNode(kKind), buffer(std::move(b)), indices(std::move(i)), value(std::move(v)) {}
};

struct Block : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kBlock;
  // Flattens nested blocks and drops empty ones; one statement is returned as itself.
  static Stmt make(std::vector<Stmt> stmts);
  std::vector<Stmt> stmts;
  explicit Block(std::vector<Stmt> s) : StmtNode(kKind), stmts(std::move(s)) {}
};

struct If : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kIf;
  static Stmt make(Expr cond, Stmt then_body, Stmt else_body = Stmt());
  Expr cond;  // scalar bool
  Stmt then_body;
  Stmt else_body;  // may be null
  If(Expr c, Stmt t, Stmt e)
      : StmtNode(kKind), cond(std::move(c)), then_body(std::move(t)), else_body(std::move(e)) {}
};

// The buffer lives for the body; its content is undefined until stored.
struct Allocate : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kAllocate;
  static Stmt make(Buffer buffer, Stmt body);
  Buffer buffer;
  Stmt body;
  Allocate(Buffer b, Stmt s) : StmtNode(kKind), buffer(std::move(b)), body(std::move(s)) {}
};

// Evaluates for effect only (prefetch, asynchronous copies).
struct Evaluate : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kEvaluate;
  static Stmt make(Expr value);
  Expr value;
  explicit Evaluate(Expr v) : StmtNode(kKind), value(std::move(v)) {}
};

// Every thread of the block waits here for all others, and then sees what they have stored. Only in
// launches (launch.h), and only where all threads of a block arrive together.
struct Barrier : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kBarrier;
  static Stmt make();
  Barrier() : StmtNode(kKind) {}
};

// A compiled unit: parameters are buffers of the caller (inputs first, then outputs) that do not
// overlap.
struct Func {
  std::string name;
  std::vector<Buffer> params;
  int num_outputs = 0;  // the last num_outputs params are written
  Stmt body;
};

const char* to_text(LoopKind kind);  // "for", "parallel", ...

bool equal(const Stmt& a,
           const Stmt& b);  // structural; loop variables and allocated buffers are matched up
bool equal(const Func& a, const Func& b);  // the same, with parameters matched by position

}  // namespace tessera::ir
