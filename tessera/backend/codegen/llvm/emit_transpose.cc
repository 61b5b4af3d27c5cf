#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include <llvm/IR/IRBuilder.h>

#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::codegen {

using ir::Expr;
using llvm::Value;

namespace {

// Vector loads that are certainly executed with their statement.
class CertainLoads final : public ir::Visitor {
 public:
  std::vector<const ir::Load*> found;

 private:
  using ir::Visitor::visit;
  void visit(const ir::Select& select) override { (*this)(select.cond); }
  void visit(const ir::Call& call) override {
    if (call.fn != ir::Intrinsic::kPrefetch) Visitor::visit(call);
  }
  void visit(const ir::Load& load) override {
    if (load.type.lanes > 1) found.push_back(&load);
    Visitor::visit(load);
  }
};

bool is_power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

std::vector<int> iota(int begin, int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(begin + i);
  return out;
}

// n vectors of n lanes, n a power of two: swaps the off-diagonal quarters of all squares of side
// 2, 4, ..., n. Every step is one trn or unpack per register; zips instead would end in LLVM's
// interleaving stores, and longer shuffles come out in many more instructions.
void transpose_square(llvm::IRBuilderBase& b, std::vector<Value*>* rows) {
  const int n = static_cast<int>(rows->size());
  for (int half = 1; half < n; half *= 2) {
    std::vector<int> upper;
    std::vector<int> lower;
    for (int i = 0; i < n; ++i) {
      upper.push_back((i & half) == 0 ? i : n + i - half);
      lower.push_back((i & half) == 0 ? i + half : n + i);
    }
    for (int r = 0; r < n; ++r) {
      if ((r & half) != 0) continue;
      Value*& x = (*rows)[static_cast<std::size_t>(r)];
      Value*& y = (*rows)[static_cast<std::size_t>(r + half)];
      Value* first = b.CreateShuffleVector(x, y, upper);
      y = b.CreateShuffleVector(x, y, lower);
      x = first;
    }
  }
}

// Joins vectors of equal length; their number is a power of two.
Value* concatenate(llvm::IRBuilderBase& b, std::vector<Value*> parts, int lanes) {
  for (; parts.size() > 1; lanes *= 2) {
    for (std::size_t i = 0; i < parts.size() / 2; ++i)
      parts[i] = b.CreateShuffleVector(parts[2 * i], parts[2 * i + 1], iota(0, 2 * lanes));
    parts.resize(parts.size() / 2);
  }
  return parts[0];
}

// n vectors of m lanes as m vectors of n lanes, both powers of two, in square blocks.
std::vector<Value*> transpose(llvm::IRBuilderBase& b, const std::vector<Value*>& rows, int width) {
  const int height = static_cast<int>(rows.size());
  const int side = std::min(height, width);
  std::vector<std::vector<Value*>> columns(static_cast<std::size_t>(width));
  for (int top = 0; top < height; top += side) {
    for (int left = 0; left < width; left += side) {
      std::vector<Value*> block;
      for (int r = top; r < top + side; ++r) {
        Value* row = rows[static_cast<std::size_t>(r)];
        block.push_back(side == width ? row : b.CreateShuffleVector(row, iota(left, side)));
      }
      transpose_square(b, &block);
      for (int c = 0; c < side; ++c)
        columns[static_cast<std::size_t>(left + c)].push_back(block[static_cast<std::size_t>(c)]);
    }
  }
  std::vector<Value*> out;
  for (std::vector<Value*>& parts : columns) out.push_back(concatenate(b, std::move(parts), side));
  return out;
}

}  // namespace

// Strided vectors at neighbouring offsets are the columns of a small matrix whose rows are dense.
void Emitter::find_transposes(const std::vector<const ir::StmtNode*>& region) {
  transposes_.clear();
  transpose_of_.clear();
  CertainLoads loads;
  std::set<const ir::BufferNode*> read;
  std::map<const ir::BufferNode*, std::vector<const ir::Store*>> stores;
  const auto scan = [&](const Expr& e) {
    loads(e);
    ir::for_each_expr(e, [&](const Expr& part) {
      if (const auto* load = part.as<ir::Load>()) read.insert(load->buffer.get());
    });
  };
  for (const ir::StmtNode* s : region) {
    if (s->kind == ir::StmtKind::kStore) {
      const auto* store = static_cast<const ir::Store*>(s);
      stores[store->buffer.get()].push_back(store);
      scan(store->value);
      for (const Expr& index : store->indices) scan(index);
    } else {
      scan(static_cast<const ir::Evaluate*>(s)->value);
    }
  }
  std::map<std::vector<std::int64_t>, StridedFamily> families;
  for (const ir::Load* load : loads.found) {
    if (!stores.contains(load->buffer.get()))
      add_strided(&families, load->buffer, load->indices, load->type.lanes, load);
  }
  for (const auto& [key, family] : families) cut_transposes(family);
  for (const auto& [buffer, list] : stores) {
    if (!read.contains(buffer)) find_transposed_stores(list);
  }
}

// All stores to one buffer that nothing reads. They are carried out with the last one of their
// group, so no two of them may meet.
void Emitter::find_transposed_stores(const std::vector<const ir::Store*>& stores) {
  std::map<std::vector<std::int64_t>, StridedFamily> families;
  for (const ir::Store* store : stores) {
    if (!add_strided(&families, store->buffer, store->indices, store->value.lanes(), store)) return;
  }
  if (families.size() != 1) return;
  const StridedFamily& family = families.begin()->second;
  std::set<std::int64_t> phases;
  for (const auto& [offset, nodes] : family.nodes) {
    const std::int64_t phase = (offset % family.stride + family.stride) % family.stride;
    if (nodes.size() > 1 || !phases.insert(phase).second) return;
  }
  cut_transposes(family);
}

bool Emitter::add_strided(std::map<std::vector<std::int64_t>, StridedFamily>* families,
                          const ir::Buffer& buffer, const std::vector<Expr>& indices, int lanes,
                          const void* node) {
  if (lanes < 2 || !is_power_of_two(lanes) || buffer->dtype == DType::kBool) return false;
  const auto place = place_of(buffer, indices);
  if (!place || place->stride < 2) return false;
  std::vector<std::int64_t> key = address_key(buffer, place->base);
  if (key.empty()) return false;
  key.insert(key.end(), {place->stride, lanes});
  const auto [family, added] =
      families->try_emplace(key, StridedFamily{buffer, place->base, place->stride, lanes, {}});
  family->second.nodes[place->base.constant].push_back(node);
  return true;
}

// Rows of at least 8 bytes and at most one register, not longer than the stride.
void Emitter::cut_transposes(const StridedFamily& family) {
  const int size = size_bytes(family.buffer->dtype);
  const auto widest = static_cast<std::size_t>(
      std::min<std::int64_t>(family.stride, std::max(target_.vector_bytes / size, 1)));
  std::vector<std::int64_t> offsets;
  for (const auto& [offset, nodes] : family.nodes) offsets.push_back(offset);
  for (std::size_t begin = 0; begin < offsets.size();) {
    std::size_t run = 1;
    while (begin + run < offsets.size() && run < widest &&
           offsets[begin + run] == offsets[begin + run - 1] + 1) {
      ++run;
    }
    run = std::bit_floor(run);
    if (run > 1 && static_cast<int>(run) * size >= 8) {
      Linear at = family.at;
      at.constant = offsets[begin];
      transposes_.push_back(
          {family.buffer, at, family.stride, family.lanes, std::vector<Value*>(run), false});
      for (std::size_t c = 0; c < run; ++c) {
        for (const void* node : family.nodes.at(offsets[begin + c]))
          transpose_of_[node] = {transposes_.size() - 1, c};
      }
    }
    begin += run;
  }
}

Value* Emitter::transposed_load(const ir::Load& load) {
  const auto found = transpose_of_.find(&load);
  if (found == transpose_of_.end()) return nullptr;
  Transpose& matrix = transposes_[found->second.first];
  if (!matrix.done) {
    if (lazy_depth_ > 0) return nullptr;  // the columns would not be available after the branch
    const int width = static_cast<int>(matrix.columns.size());
    std::vector<Value*> rows;
    for (int r = 0; r < matrix.rows; ++r) {
      Linear at = matrix.at;
      at.constant += r * matrix.stride;
      rows.push_back(load_dense(matrix.buffer, at, width));
    }
    matrix.columns = transpose(b_, rows, width);
    matrix.done = true;
  }
  return matrix.columns[found->second.second];
}

bool Emitter::transposed_store(const ir::Store& store, Value* value) {
  const auto found = transpose_of_.find(&store);
  if (found == transpose_of_.end()) return false;
  Transpose& matrix = transposes_[found->second.first];
  matrix.columns[found->second.second] = value;
  if (std::count(matrix.columns.begin(), matrix.columns.end(), nullptr) > 0) return true;
  const std::vector<Value*> rows = transpose(b_, matrix.columns, matrix.rows);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Linear at = matrix.at;
    at.constant += static_cast<std::int64_t>(r) * matrix.stride;
    store_at(matrix.buffer, pointer(matrix.buffer, at), rows[r],
             static_cast<int>(matrix.columns.size()), size_bytes(matrix.buffer->dtype));
  }
  return true;
}

}  // namespace tessera::codegen
