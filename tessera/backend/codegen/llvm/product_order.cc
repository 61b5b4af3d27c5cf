#include "tessera/backend/codegen/llvm/product_order.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

namespace tessera::codegen {
namespace {

using llvm::Instruction;
using llvm::Value;

// Steps of fewer sums stay as they are.
constexpr std::size_t kLeastSums = 16;

// One element, or a lane of a vector.
struct Element {
  Value* of = nullptr;
  unsigned lane = 0;

  bool operator<(const Element& other) const {
    return std::tie(of, lane) < std::tie(other.of, other.lane);
  }
};

// row * column + sum, all of them f32: one, or as many as the column has lanes.
struct Product {
  Element row;
  Value* column = nullptr;
  Instruction *multiply = nullptr, *add = nullptr;
  unsigned sum_operand = 0, lanes = 1;

  Value* sum() const { return add->getOperand(sum_operand); }
};

unsigned lanes_of(const Value* v) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return type ? type->getNumElements() : 1;
}

// What all lanes of a vector are copies of, if they are.
bool match_splat(Value* v, Element* out) {
  const auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(v);
  if (!shuffle) return false;
  const llvm::ArrayRef<int> mask = shuffle->getShuffleMask();
  const int lane = mask[0];
  if (lane < 0 || static_cast<unsigned>(lane) >= lanes_of(shuffle->getOperand(0)) ||
      !std::all_of(mask.begin(), mask.end(), [&](int m) { return m == lane; }))
    return false;
  *out = {shuffle->getOperand(0), static_cast<unsigned>(lane)};
  return true;
}

bool match_product(Instruction& add, Product* out) {
  if (add.getOpcode() != Instruction::FAdd || !add.getType()->getScalarType()->isFloatTy() ||
      !add.hasAllowContract())
    return false;
  for (const unsigned side : {1u, 0u}) {
    auto* multiply = llvm::dyn_cast<Instruction>(add.getOperand(side));
    if (!multiply || multiply->getOpcode() != Instruction::FMul || !multiply->hasOneUse() ||
        !multiply->hasAllowContract() || multiply->getParent() != add.getParent())
      continue;
    Value *x = multiply->getOperand(0), *y = multiply->getOperand(1);
    *out = {.row = {x},
            .column = y,
            .multiply = multiply,
            .add = &add,
            .sum_operand = 1 - side,
            .lanes = lanes_of(&add)};
    if (out->lanes == 1 || match_splat(x, &out->row)) return true;
    out->column = x;
    return match_splat(y, &out->row);
  }
  return false;
}

// Products of one step: none of them adds to the result of another.
using Step = std::vector<Product>;

std::vector<Step> find_steps(llvm::BasicBlock& block) {
  std::vector<Step> out(1);
  std::set<const Value*> results;
  for (Instruction& i : block) {
    Product p;
    if (!match_product(i, &p)) continue;
    if (results.contains(p.sum())) {
      out.emplace_back();
      results.clear();
    }
    out.back().push_back(p);
    results.insert(&i);
  }
  return out;
}

std::size_t sums_of(const Step& step) {
  std::size_t out = 0;
  for (const Product& p : step) out += p.lanes;
  return out;
}

// Whether everything that uses a result comes after the last product of the step.
bool may_move(const Step& step) {
  const Instruction* last = step.back().add;
  for (const Product& p : step) {
    for (const llvm::User* user : p.add->users()) {
      const auto* i = llvm::dyn_cast<Instruction>(user);
      if (!i || (i->getParent() == last->getParent() && !llvm::isa<llvm::PHINode>(i) &&
                 !last->comesBefore(i)))
        return false;
    }
  }
  return true;
}

bool may_move_to(llvm::LoadInst* load, Instruction* to) {
  if (load->getParent() != to->getParent() || !load->isSimple() || !load->comesBefore(to))
    return false;
  for (const llvm::User* user : load->users()) {
    const auto* i = llvm::dyn_cast<Instruction>(user);
    if (i && i->getParent() == to->getParent() && !llvm::isa<llvm::PHINode>(i) &&
        i->comesBefore(to))
      return false;
  }
  for (const Instruction* i = load->getNextNode(); i != to; i = i->getNextNode()) {
    if (i->mayWriteToMemory()) return false;
  }
  return true;
}

// Whether rows come several from one vector.
bool share_vectors(const Step& step) {
  std::map<const Value*, unsigned> lanes;
  for (const Product& p : step) {
    const auto [at, added] = lanes.try_emplace(p.row.of, p.row.lane);
    if (!added && at->second != p.row.lane) return true;
  }
  return false;
}

// The assembler puts the factor that was loaded first into the first place of an instruction, and
// remembers operands by their place: all rows are loaded before all columns. Rows that are vectors
// along the sum lie in one bank at every step, and gain nothing (H200: 373 us instead of 364 for
// 2048 x 2048 x 2048, together with conditions of copies instead of branches).
void move_loads(const Step& step, Instruction* to) {
  if (!share_vectors(step)) return;
  std::vector<llvm::LoadInst*> loads;
  const auto add = [&](Value* v) {
    auto* load = llvm::dyn_cast<llvm::LoadInst>(v);
    if (load && std::find(loads.begin(), loads.end(), load) == loads.end()) loads.push_back(load);
  };
  for (const Product& p : step) add(p.row.of);
  for (const Product& p : step) add(p.column);
  for (llvm::LoadInst* load : loads) {
    if (may_move_to(load, to)) load->moveBefore(*to->getParent(), to->getIterator());
  }
}

// Rows in the order in which they appear, forth and back.
void write_step(const Step& step) {
  std::vector<std::vector<const Product*>> rows;
  std::map<Element, std::size_t> row_of;
  for (const Product& p : step) {
    const auto [at, added] = row_of.try_emplace(p.row, rows.size());
    if (added) rows.emplace_back();
    rows[at->second].push_back(&p);
  }
  llvm::IRBuilder<> b(step.back().add->getNextNode());
  Instruction* first = nullptr;
  std::map<const Product*, std::vector<Value*>> sums;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::pair<const Product*, unsigned>> order;
    for (const Product* p : rows[r]) {
      for (unsigned lane = 0; lane < p->lanes; ++lane) order.emplace_back(p, lane);
    }
    if (r % 2 == 1) std::reverse(order.begin(), order.end());
    for (const auto& [p, lane] : order) {
      b.setFastMathFlags(p->add->getFastMathFlags());
      const auto of = [&](Value* v, unsigned at) {
        if (lanes_of(v) == 1) return v;
        Value* element = b.CreateExtractElement(v, std::uint64_t{at});
        if (!first) first = llvm::dyn_cast<Instruction>(element);
        return element;
      };
      Value* product = b.CreateFMul(of(p->row.of, p->row.lane), of(p->column, lane));
      std::vector<Value*>& lanes = sums[p];
      lanes.resize(p->lanes);
      lanes[lane] = b.CreateFAdd(of(p->sum(), lane), product);
    }
  }
  for (const Product& p : step) {
    const std::vector<Value*>& lanes = sums.at(&p);
    Value* sum = lanes[0];
    if (p.lanes > 1) {
      sum = llvm::PoisonValue::get(p.add->getType());
      for (unsigned lane = 0; lane < p.lanes; ++lane)
        sum = b.CreateInsertElement(sum, lanes[lane], std::uint64_t{lane});
    }
    p.add->replaceAllUsesWith(sum);
  }
  std::set<Instruction*> splats;
  for (const Product& p : step) {
    for (Value* factor : p.multiply->operands()) {
      if (llvm::isa<llvm::ShuffleVectorInst>(factor))
        splats.insert(llvm::cast<Instruction>(factor));
    }
    p.add->eraseFromParent();
    p.multiply->eraseFromParent();
  }
  for (Instruction* splat : splats) {
    if (splat->use_empty()) splat->eraseFromParent();
  }
  if (first) move_loads(step, first);
}

bool is_sum(const Value* v) {
  return llvm::isa<llvm::PHINode>(v) || llvm::isa<llvm::InsertElementInst>(v);
}

// What is stored is another register than the sum: adding -0 changes no number.
void free_sums(llvm::Function& f) {
  for (llvm::BasicBlock& block : f) {
    for (Instruction& i : block) {
      auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
      Value* v = store ? store->getValueOperand() : nullptr;
      if (!v || lanes_of(v) == 1 || !v->getType()->getScalarType()->isFloatTy() || !is_sum(v))
        continue;
      llvm::IRBuilder<> b(store);
      llvm::Type* type = v->getType()->getScalarType();
      auto* signature = llvm::FunctionType::get(type, {type}, false);
      auto* copy = llvm::InlineAsm::get(signature, "add.f32 $0, $1, 0f80000000;", "=f,f",
                                        /*hasSideEffects=*/false);
      Value* out = llvm::PoisonValue::get(v->getType());
      for (unsigned lane = 0; lane < lanes_of(v); ++lane) {
        Value* sum = b.CreateExtractElement(v, std::uint64_t{lane});
        out = b.CreateInsertElement(out, b.CreateCall(copy, sum), std::uint64_t{lane});
      }
      store->setOperand(0, out);
    }
  }
}

}  // namespace

void order_products(llvm::Module& module) {
  for (llvm::Function& f : module) {
    bool ordered = false;
    for (llvm::BasicBlock& block : f) {
      for (const Step& step : find_steps(block)) {
        if (sums_of(step) < kLeastSums || !may_move(step)) continue;
        write_step(step);
        ordered = true;
      }
    }
    if (ordered) free_sums(f);
  }
}

}  // namespace tessera::codegen
