#include "tessera/backend/codegen/llvm/load_order.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

namespace tessera::codegen {
namespace {

using llvm::Instruction;

// Of one thread, that loads may hold before the store that they pass.
constexpr std::uint64_t kMostBytes = 128;

bool is_plain_input(const llvm::LoadInst& load) {
  const auto* arg =
      llvm::dyn_cast<llvm::Argument>(llvm::getUnderlyingObject(load.getPointerOperand(), 0));
  return arg && !arg->hasAttribute(llvm::Attribute::ReadOnly) && !load.isVolatile() &&
         load.getMetadata(llvm::LLVMContext::MD_alias_scope);
}

bool leaves_alone(const Instruction& i, const llvm::LoadInst& load) {
  if (!i.mayWriteToMemory()) return true;
  const llvm::MDNode* others = i.getMetadata(llvm::LLVMContext::MD_noalias);
  const llvm::MDNode* scope = load.getMetadata(llvm::LLVMContext::MD_alias_scope);
  return others && llvm::all_of(scope->operands(), [&](const llvm::MDOperand& s) {
           return llvm::is_contained(others->operands(), s);
         });
}

// What computes the address, in the block behind `anchor`; false: it cannot be computed before.
bool collect_address(llvm::Value* v, Instruction* anchor, std::vector<Instruction*>* chain) {
  auto* i = llvm::dyn_cast<Instruction>(v);
  if (!i || i->getParent() != anchor->getParent() || i->comesBefore(anchor)) return true;
  if (i == anchor || i->mayReadOrWriteMemory() || llvm::isa<llvm::PHINode>(i) ||
      llvm::isa<llvm::CallBase>(i))
    return false;
  if (llvm::is_contained(*chain, i)) return true;
  for (llvm::Value* operand : i->operands())
    if (!collect_address(operand, anchor, chain)) return false;
  chain->push_back(i);
  return true;
}

void lift_loads(llvm::BasicBlock& block, const llvm::DataLayout& layout) {
  Instruction* anchor = nullptr;  // the store that loads move above
  std::uint64_t held = 0;
  for (Instruction& i : llvm::make_early_inc_range(block)) {
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
    if (store && store->getPointerAddressSpace() == 1 && !anchor) {
      anchor = &i;
      held = 0;
    }
    auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
    if (!anchor || !load || !is_plain_input(*load)) continue;
    held += layout.getTypeStoreSize(load->getType());
    bool free = held <= kMostBytes;
    for (Instruction* at = anchor; free && at != load; at = at->getNextNode())
      free = leaves_alone(*at, *load);
    std::vector<Instruction*> chain;
    if (!free || !collect_address(load->getPointerOperand(), anchor, &chain)) {
      anchor = nullptr;  // from the next store on
      continue;
    }
    for (Instruction* part : chain) part->moveBefore(anchor);
    load->moveBefore(anchor);
  }
}

}  // namespace

void lift_loads(llvm::Module& module) {
  for (llvm::Function& f : module)
    for (llvm::BasicBlock& block : f) lift_loads(block, module.getDataLayout());
}

}  // namespace tessera::codegen
