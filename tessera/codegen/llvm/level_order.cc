#include "tessera/codegen/llvm/level_order.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

namespace tessera::codegen {
namespace {

using llvm::Instruction;

// Vectors alive at once. Over 32 some are spilled, which costs less than waiting: eight
// exponentials take 6.3 cycles each side by side, 9.0 one after the other.
constexpr std::size_t kMostAlive = 56;

// Accesses of different buffers, by their alias scopes, have no order.
class MemoryOrder {
 public:
  // The lowest level that the access may have.
  int lowest(const Instruction& access) const {
    int level = 0;
    for (const auto& [scope, seen] : seen_) {
      if (independent(scope, scope_of(access))) continue;
      level = std::max(
          level, access.mayWriteToMemory() ? std::max(seen.load, seen.store) : seen.store + 1);
    }
    return level;
  }

  void add(const Instruction& access, int level) {
    Levels& seen = seen_[scope_of(access)];
    int& latest = access.mayWriteToMemory() ? seen.store : seen.load;
    latest = std::max(latest, level);
  }

 private:
  struct Levels {
    int load = 0, store = -1;
  };
  static const llvm::MDNode* scope_of(const Instruction& access) {
    return access.getMetadata(llvm::LLVMContext::MD_alias_scope);
  }
  static bool independent(const llvm::MDNode* a, const llvm::MDNode* b) { return a && b && a != b; }

  std::map<const llvm::MDNode*, Levels> seen_;
};

bool is_ordered(const Instruction& i) {
  if (llvm::isa<llvm::LoadInst>(i) || llvm::isa<llvm::StoreInst>(i)) return i.isVolatile();
  return i.mayReadOrWriteMemory() || i.mayHaveSideEffects();
}

bool is_sum(const llvm::Value* v) {
  if (const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(v))
    return call->getIntrinsicID() == llvm::Intrinsic::fma;
  const auto* i = llvm::dyn_cast<Instruction>(v);
  return i && i->getOpcode() == Instruction::FAdd;
}

// Adds products to what it carries, and nothing else; or carries sums over several steps.
bool sums_products(const llvm::BasicBlock& block) {
  std::set<const llvm::Value*> once;
  bool has_chains = false;
  for (const Instruction& i : block) {
    if (llvm::isa<llvm::StoreInst>(i) || i.getOpcode() == Instruction::FSub) has_chains = true;
    if (!is_sum(&i)) continue;
    for (const llvm::Value* operand : i.operands()) {
      if (once.contains(operand)) return true;
      if (llvm::isa<llvm::PHINode>(operand)) once.insert(&i);
    }
  }
  return !has_chains;
}

// Vectors alive at the fullest point of the order: results until their last use, and what comes
// from outside throughout.
std::size_t most_alive(const std::vector<Instruction*>& order) {
  std::map<const llvm::Value*, std::size_t> last_use;
  std::set<const llvm::Value*> inside(order.begin(), order.end()), outside;
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (const llvm::Value* operand : order[at]->operands()) {
      if (!operand->getType()->isVectorTy()) continue;
      if (inside.contains(operand)) {
        last_use[operand] = at;
      } else {
        outside.insert(operand);
      }
    }
  }
  std::vector<std::size_t> ends(order.size() + 1, 0);
  std::size_t alive = outside.size(), most = alive;
  for (std::size_t at = 0; at < order.size(); ++at) {
    alive -= ends[at];
    if (const auto use = last_use.find(order[at]); use != last_use.end()) {
      ++alive;
      ++ends[use->second];
    }
    most = std::max(most, alive);
  }
  return most;
}

void order_block(llvm::BasicBlock& block) {
  std::map<const llvm::Value*, int> levels;
  std::vector<Instruction*> order;
  MemoryOrder memory;
  for (Instruction& i : block) {
    if (llvm::isa<llvm::PHINode>(i) || i.isTerminator()) continue;
    if (is_ordered(i)) return;
    int level = i.mayReadOrWriteMemory() ? memory.lowest(i) : 0;
    for (const llvm::Value* operand : i.operands()) {
      if (const auto found = levels.find(operand); found != levels.end())
        level = std::max(level, found->second + 1);
    }
    if (i.mayReadOrWriteMemory()) memory.add(i, level);
    levels[&i] = level;
    order.push_back(&i);
  }
  std::stable_sort(order.begin(), order.end(), [&](const Instruction* a, const Instruction* b) {
    return levels.at(a) < levels.at(b);
  });
  if (most_alive(order) > kMostAlive) return;
  for (Instruction* i : order) i->moveBefore(block.getTerminator());
}

}  // namespace

void order_by_level(llvm::Module& module) {
  for (llvm::Function& function : module) {
    for (llvm::BasicBlock& block : function) {
      const Instruction* end = block.getTerminator();
      bool is_loop = false;
      for (unsigned i = 0; i < end->getNumSuccessors(); ++i)
        is_loop = is_loop || end->getSuccessor(i) == &block;
      if (is_loop && !sums_products(block)) order_block(block);
    }
  }
}

}  // namespace tessera::codegen
