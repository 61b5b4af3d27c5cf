#include "tessera/backend/codegen/llvm/level_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

namespace tessera::codegen {
namespace {

using llvm::Instruction;

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

bool is_constant_load(const Instruction& i) {
  return i.getMetadata(llvm::LLVMContext::MD_invariant_load) != nullptr;
}

bool is_memory(const Instruction& i) { return i.mayReadOrWriteMemory() && !is_constant_load(i); }

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

// Adds products to what it carries, and nothing else; or carries sums over
// several steps.
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

// Vectors alive at the fullest point of the order: results until their last
// use, and what comes from outside throughout.
std::size_t most_alive(const std::vector<Instruction*>& order) {
  std::map<const llvm::Value*, std::size_t> last_use;
  std::set<const llvm::Value*> inside(order.begin(), order.end()), outside;
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (const llvm::Value* operand : order[at]->operands()) {
      if (!operand->getType()->isVectorTy()) continue;
      // A lane of a register from outside is an operand of its own.
      const auto* lane = llvm::dyn_cast<llvm::ShuffleVectorInst>(operand);
      if (lane && !inside.contains(lane)) operand = lane->getOperand(0);
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

// Cycles until a result can be used, roughly; those of a load are for the core
// to hide.
int latency(const Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  if (call && call->getIntrinsicID() == llvm::Intrinsic::fma) return 4;
  if (i.getOpcode() == Instruction::FMul) return 3;
  return i.getType()->isVectorTy() ? 2 : 0;
}

using Times = std::map<const llvm::Value*, int>;

// The chain that an instruction belongs to: the first store that needs it. What
// no store needs comes with its operands and after the stores before it.
Times chains_of(const std::vector<Instruction*>& block) {
  const std::set<const llvm::Value*> inside(block.begin(), block.end());
  Times chains;
  int count = 0;
  for (const Instruction* root : block) {
    if (!llvm::isa<llvm::StoreInst>(root)) continue;
    std::vector<const llvm::Value*> todo = {root};
    while (!todo.empty()) {
      const llvm::Value* v = todo.back();
      todo.pop_back();
      if (!inside.contains(v) || !chains.emplace(v, count).second) continue;
      const auto* i = llvm::cast<Instruction>(v);
      todo.insert(todo.end(), i->op_begin(), i->op_end());
    }
    ++count;
  }
  count = 0;
  for (const Instruction* i : block) {
    if (llvm::isa<llvm::StoreInst>(i)) ++count;
    if (chains.contains(i)) continue;
    int& chain = chains.emplace(i, count).first->second;
    for (const llvm::Value* operand : i->operands()) {
      if (const auto found = chains.find(operand); found != chains.end())
        chain = std::max(chain, found->second);
    }
  }
  return chains;
}

// When each instruction could start, in half cycles; constants are loaded just
// before they are needed.
Times start_times(const std::vector<Instruction*>& block) {
  Times start, ready;
  MemoryOrder memory;
  for (const Instruction* i : block) {
    int time = is_memory(*i) ? memory.lowest(*i) : 0;
    for (const llvm::Value* operand : i->operands()) {
      if (const auto found = ready.find(operand); found != ready.end())
        time = std::max(time, found->second);
    }
    if (is_memory(*i)) memory.add(*i, time);
    start[i] = time;
    ready[i] = time + 2 * latency(*i);
  }
  for (const Instruction* i : block) {
    if (!is_constant_load(*i)) continue;
    int first_use = std::numeric_limits<int>::max();
    for (const llvm::User* user : i->users()) {
      if (const auto found = start.find(user); found != start.end())
        first_use = std::min(first_use, found->second);
    }
    if (first_use != std::numeric_limits<int>::max()) start[i] = std::max(start[i], first_use - 2);
  }
  return start;
}

// Whether values are made before they are used, and accesses that may meet keep their order.
bool is_legal(const std::vector<Instruction*>& block, const std::vector<Instruction*>& order) {
  Times written;  // number in the program, from 1
  for (const Instruction* i : block) written.emplace(i, static_cast<int>(written.size()) + 1);
  std::set<const llvm::Value*> placed;
  MemoryOrder memory;
  for (const Instruction* i : order) {
    for (const llvm::Value* operand : i->operands()) {
      if (written.count(operand) > 0 && placed.count(operand) == 0) return false;
    }
    placed.insert(i);
    if (!is_memory(*i)) continue;
    if (memory.lowest(*i) > written.at(i)) return false;
    memory.add(*i, written.at(i));
  }
  return true;
}

// Chains one after the other, as closely as the registers allow: no operation directly follows the
// one that it waits for, and few values are alive.
void stagger(const std::vector<Instruction*>& block, Instruction* end, std::size_t registers) {
  constexpr int kFarthest = 64;
  const Times start = start_times(block);
  const Times chains = chains_of(block);
  const auto order_at = [&](int step) {
    std::vector<std::pair<int, Instruction*>> timed;
    for (Instruction* i : block) timed.emplace_back(start.at(i) + step * chains.at(i), i);
    std::stable_sort(timed.begin(), timed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Instruction*> order;
    for (const auto& [time, i] : timed) order.push_back(i);
    return order;
  };
  int too_close = -1, step = kFarthest;
  while (step - too_close > 1) {
    const int middle = (too_close + step) / 2;
    (most_alive(order_at(middle)) > registers ? too_close : step) = middle;
  }
  const std::vector<Instruction*> order = order_at(step);
  if (most_alive(order) > registers || !is_legal(block, order)) return;
  for (Instruction* i : order) {
    i->moveBefore(end);
    if (!is_memory(*i)) continue;
    // Loads and stores seem to depend on each other, or LLVM would load everything first.
    i->setMetadata(llvm::LLVMContext::MD_alias_scope, nullptr);
    i->setMetadata(llvm::LLVMContext::MD_noalias, nullptr);
  }
}

void order_block(llvm::BasicBlock& block, const target::Core& core) {
  std::map<const llvm::Value*, int> levels;
  std::vector<Instruction*> order;
  MemoryOrder memory;
  bool has_constants = false;
  for (Instruction& i : block) {
    if (llvm::isa<llvm::PHINode>(i) || i.isTerminator()) continue;
    if (is_ordered(i)) return;
    has_constants = has_constants || is_constant_load(i);
    int level = i.mayReadOrWriteMemory() ? memory.lowest(i) : 0;
    for (const llvm::Value* operand : i.operands()) {
      if (const auto found = levels.find(operand); found != levels.end())
        level = std::max(level, found->second + 1);
    }
    if (i.mayReadOrWriteMemory()) memory.add(i, level);
    levels[&i] = level;
    order.push_back(&i);
  }
  if (has_constants) {
    const auto registers = static_cast<std::size_t>(core.most_alive_staggered);
    return stagger(order, block.getTerminator(), registers);
  }
  std::stable_sort(order.begin(), order.end(), [&](const Instruction* a, const Instruction* b) {
    return levels.at(a) < levels.at(b);
  });
  if (most_alive(order) > static_cast<std::size_t>(core.most_alive)) return;
  for (Instruction* i : order) i->moveBefore(block.getTerminator());
}

}  // namespace

void order_by_level(llvm::Module& module, const target::Core& core) {
  if (core.most_alive == 0) return;
  for (llvm::Function& function : module) {
    for (llvm::BasicBlock& block : function) {
      const Instruction* end = block.getTerminator();
      bool is_loop = false;
      for (unsigned i = 0; i < end->getNumSuccessors(); ++i)
        is_loop = is_loop || end->getSuccessor(i) == &block;
      if (is_loop && !sums_products(block)) order_block(block, core);
    }
  }
}

}  // namespace tessera::codegen
