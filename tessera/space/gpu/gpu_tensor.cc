#include "tessera/space/gpu/gpu_tensor.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "tessera/space/contraction.h"
#include "tessera/space/gpu/gpu.h"
#include "tessera/space/gpu/gpu_parts.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kSide = 16;  // of a tile of sums
constexpr std::int64_t kLeastRows = 5;
constexpr std::int64_t kCopyBytes = 16;
// Rounds of a copy that are unrolled, threads that add up parts, operations of a copy that every
// block may repeat.
constexpr std::int64_t kMaxRounds = 16;
constexpr double kCheapCopy = 8;

struct Instruction {
  DType type;
  std::int64_t depth;
  const char* name;
};
constexpr std::array kInstructions = {Instruction{DType::kF16, 16, "mma16x16x16"},
                                      Instruction{DType::kBF16, 16, "mma16x16x16"}};

const Instruction* find_instruction(const target::Target& target, DType type) {
  for (const Instruction& i : kInstructions) {
    if (i.type != type) continue;
    for (const target::TensorShape& s : target::tensor_shapes(target)) {
      if (s.dtype == type && s.m == kSide && s.k == i.depth) return &i;
    }
  }
  return nullptr;
}

class GpuTensor {
 public:
  GpuTensor(Context& context, const Contraction& c, const Host& host,
            const Instruction& instruction)
      : x_(context),
        c_(c),
        host_(host),
        s_(context.stage(c_.stage)),
        h_(context.stage(host_.stage)),
        self_(host_.stage == c_.stage),
        instruction_(instruction) {}

  // Operands lie with the sums or their own rows side by side, in the copies too.
  bool fits() {
    const auto cut = find_cut();
    if (!cut || c_.row < 0 || c_.a.conditional || c_.b.conditional) return false;
    cut_ = *cut;
    const auto row = static_cast<std::size_t>(c_.row);
    const auto a = make_operand(c_.a, row), b = make_operand(c_.b, c_.vector);
    if (!a || !b) return false;
    operands_ = {*a, *b};
    problem_ = {.row = s_.extent(row),
                .column = s_.extent(c_.vector),
                .reduce = s_.extent(cut_),
                .bytes = size_bytes(instruction_.type),
                .depth = instruction_.depth};
    for (const auto* axes : {&c_.batch, &c_.rows, &c_.columns}) {
      for (const std::size_t i : *axes) problem_.batch *= s_.extent(i);
    }
    for (const std::size_t r : c_.reduce) problem_.taps *= r == cut_ ? 1 : s_.extent(r);
    // Most of a tile would be empty.
    if (problem_.row < kLeastRows || problem_.column < kSide / 2 ||
        problem_.reduce < instruction_.depth)
      return false;
    const TensorTile least{.warp_rows = kSide, .warp_columns = kSide, .steps = instruction_.depth};
    return refuse_tensor_tile(x_.target, problem_, least) == nullptr;
  }

  void run() {
    choose();
    Writer& w = x_.writer;
    sum_ = cut_gpu_sum(x_, c_, host_, cut_, tile_.parts);
    for (const Operand& o : operands_) begin_copy(o);
    write_launch();
    const std::string step = write_sums();
    for (const Operand& o : operands_) write_copy(o, step);
    w.pragma(sum_.inner, step, "pipeline", tile_.places);
    x_.done[c_.stage] = true;
    x_.done[host_.stage] = true;
    if (tile_.parts > 1) add_gpu_parts(x_, c_, host_, sum_.part);
  }

 private:
  const std::string& name() const { return s_.op.name; }

  // The axis moves along the last index, one by one.
  static bool is_last(const Access& a, std::size_t axis) {
    const auto& terms = a.indices.back().terms;
    return std::any_of(terms.begin(), terms.end(),
                       [&](const IndexTerm& t) { return t.axis == axis && t.coefficient == 1; });
  }

  // The reduce axis along which an operand lies, or else the longest.
  std::optional<std::size_t> find_cut() const {
    for (const Access* a : {&c_.a, &c_.b}) {
      for (const std::size_t r : c_.reduce) {
        if (is_last(*a, r) && s_.extent(r) >= instruction_.depth) return r;
      }
    }
    std::optional<std::size_t> out;
    for (const std::size_t r : c_.reduce) {
      if (!out || s_.extent(r) > s_.extent(*out)) out = r;
    }
    return out;
  }

  // An operand on its way through shared memory.
  struct Operand {
    const Access* access = nullptr;
    std::vector<std::size_t> order;  // dimensions as they are stored, outermost first
    bool moved = false;              // that order is not the one of the buffer
  };

  // As it lies; a constant that does not lie right, or whose rows are no whole vectors, is stored
  // in another order.
  std::optional<Operand> make_operand(const Access& a, std::size_t outer) const {
    Operand o{.access = &a};
    for (std::size_t d = 0; d < a.indices.size(); ++d) o.order.push_back(d);
    const bool constant = x_.analysis.constant(a.buffer) && a.regular();
    const std::int64_t vector = kCopyBytes / size_bytes(a.buffer->dtype);
    const bool whole = a.buffer->shape.back() % vector == 0;
    const bool better = constant && !whole && s_.extent(cut_) % vector == 0;
    std::optional<Operand> as_is;
    if (lies_along(a, outer)) as_is = o;
    if (as_is && !better) return o;
    const auto at = [&](std::size_t axis) {
      return std::find_if(o.order.begin(), o.order.end(), [&](std::size_t d) {
        const auto& terms = a.indices[d].terms;
        return terms.size() == 1 && terms[0].axis == axis && terms[0].coefficient == 1;
      });
    };
    if (!constant) return std::nullopt;
    for (const std::size_t axis : {outer, cut_}) {  // to the end, one after the other
      const auto found = at(axis);
      if (found == o.order.end()) return as_is;
      const std::size_t d = *found;
      o.order.erase(found);
      o.order.push_back(d);
    }
    o.moved = true;
    return o;
  }

  static schedule::Layout layout(const Operand& o) {
    schedule::Layout out;
    for (const std::size_t d : o.order) out.push_back({.dim = static_cast<int>(d)});
    return out;
  }

  bool lies_along(const Access& a, std::size_t outer) const {
    if (!a.regular() || a.indices.empty() || a.indices.back().terms.size() != 1) return false;
    if (!is_last(a, cut_) && !is_last(a, outer)) return false;
    // Nothing else moves with the axis that lies side by side.
    const std::size_t along = is_last(a, cut_) ? cut_ : outer;
    int uses = 0;
    for (const Index& index : a.indices) {
      for (const IndexTerm& t : index.terms) uses += t.axis == along ? 1 : 0;
    }
    return uses == 1;
  }

  void choose() {
    TensorTile preferred;
    if (!x_.chooser.listed(name(), "warp_rows"))
      preferred = choose_tensor_tile(x_.target, problem_);
    const std::int64_t depth = instruction_.depth;
    tile_ = {.steps = depth, .places = 2};
    const auto number = [&](const char* what, std::int64_t TensorTile::*field,
                            std::initializer_list<std::int64_t> values) {
      tile_.*field = x_.chooser.number(
          name(), what, DecisionKind::kThread, preferred.*field,
          [&] { return std::vector<std::int64_t>(values); },
          [&](std::int64_t n) {
            TensorTile t = tile_;
            t.*field = n;
            return refuse_tensor_tile(x_.target, problem_, t);
          });
    };
    number("warp_rows", &TensorTile::warp_rows, {16, 32, 64, 128});
    number("warp_columns", &TensorTile::warp_columns, {16, 32, 64, 128});
    number("row_warps", &TensorTile::row_warps, {1, 2, 4});
    number("column_warps", &TensorTile::column_warps, {1, 2, 4});
    number("tensor_steps", &TensorTile::steps, {depth, 2 * depth, 4 * depth});
    number("tensor_places", &TensorTile::places, {2, 3, 4, 5});
    number("tensor_parts", &TensorTile::parts, {1, 2, 3, 4, 6, 8, 12, 16});
  }

  // What makes the operand is computed by the copy, if that is little.
  void begin_copy(const Operand& o) {
    Writer& w = x_.writer;
    const Access& a = *o.access;
    if (o.moved) w.layout(a.buffer->name, layout(o));
    w.cache_read(a.buffer->name, sum_.inner, "shared");
    const int producer = x_.analysis.producer(a.buffer);
    if (producer < 0) return;
    const auto p = static_cast<std::size_t>(producer);
    const Stage& made = x_.stage(p);
    if (x_.done[p] || made.output || made.reduces() || made.users.size() != 1 ||
        made.op.outputs.size() != 1)
      return;
    if (!x_.chooser.flag(made.op.name, "in_copy", DecisionKind::kLocation, made.cost <= kCheapCopy))
      return;
    w.compute_inline(made.op.name);
    x_.done[p] = true;
  }

  std::string axis_of(std::size_t axis) const {
    return tile_.parts > 1 ? s_.axis_name(axis) : h_.axis_name(host_.axis[axis]);
  }

  // Blocks, then warps, then the threads of a warp, then what one of them holds.
  void write_launch() {
    Writer& w = x_.writer;
    Loops blocks = gpu_block_loops(x_, c_, host_, sum_.part);
    const Loops row =
        w.split(sum_.launch, axis_of(static_cast<std::size_t>(c_.row)),
                {tile_.row_warps, tile_.warp_rows / kSide, 2, 8}, schedule::Tail::kGuard);
    const Loops column =
        w.split(sum_.launch, axis_of(c_.vector), {tile_.column_warps, tile_.warp_columns / 8, 4, 2},
                schedule::Tail::kGuard);
    blocks.insert(blocks.end(), {row[0], column[0]});
    Loops order = blocks;
    order.insert(order.end(),
                 {row[1], column[1], row[4], column[3], row[2], row[3], column[2], column[4]});
    w.reorder(sum_.launch, order);
    w.annotate(sum_.launch, w.fuse(sum_.launch, blocks), schedule::Annotation::kBlockX);
    const std::string warp = w.fuse(sum_.launch, {row[1], column[1]});
    w.annotate(sum_.launch, warp, schedule::Annotation::kThreadY);
    w.annotate(sum_.launch, w.fuse(sum_.launch, {row[4], column[3]}),
               schedule::Annotation::kThreadX);
    for (const std::string& loop : {row[2], row[3], column[2]}) w.unroll(sum_.launch, loop);
    w.vectorize(sum_.launch, column[4]);
    w.compute_at(sum_.inner, sum_.launch, warp);
  }

  // The sums of a warp, some steps at a time; returns the loop around those steps.
  std::string write_sums() {
    Writer& w = x_.writer;
    const std::int64_t depth = instruction_.depth;
    const Loops steps =
        w.split(sum_.inner, sum_.cut, {tile_.steps / depth, depth}, schedule::Tail::kGuard);
    const Loops row = w.split(sum_.inner, s_.axis_name(static_cast<std::size_t>(c_.row)), {kSide},
                              schedule::Tail::kGuard);
    const Loops column =
        w.split(sum_.inner, s_.axis_name(c_.vector), {kSide}, schedule::Tail::kGuard);
    Loops outer;
    for (const std::size_t r : c_.reduce) {
      if (r != cut_) outer.push_back(s_.axis_name(r));
    }
    outer.push_back(steps[0]);
    Loops order = outer;
    order.push_back(steps[1]);
    Loops unrolled = {steps[1], row[0], column[0]};
    if (tile_.parts > 1) unrolled.push_back(sum_.part);
    for (std::size_t i = 0; i < s_.rank(); ++i) {
      if (i != c_.vector && static_cast<int>(i) != c_.row) unrolled.push_back(s_.axis_name(i));
    }
    order.insert(order.end(), unrolled.begin() + 3, unrolled.end());
    order.insert(order.end(), {row[0], column[0], row[1], column[1], steps[2]});
    w.reorder(sum_.inner, order);
    for (const std::string& loop : unrolled) w.unroll(sum_.inner, loop);
    w.tensorize(sum_.inner, row[1], instruction_.name);
    return w.fuse(sum_.inner, outer);
  }

  // Elements of a dimension that a block needs for some steps.
  std::int64_t span(const Access& a, std::size_t d) const {
    std::int64_t out = 1;
    for (const IndexTerm& t : a.indices[d].terms) {
      std::int64_t length = 1;
      if (t.axis == c_.vector) length = tile_.columns();
      if (static_cast<int>(t.axis) == c_.row) length = tile_.rows();
      if (t.axis == cut_) length = tile_.steps;
      out += std::abs(t.coefficient) * (length - 1);
    }
    return std::min(out, std::max<std::int64_t>(1, a.buffer->shape[d]));
  }

  void write_copy(const Operand& o, const std::string& step) {
    Writer& w = x_.writer;
    const Access& a = *o.access;
    const std::string stage = a.buffer->name + ".shared";
    w.compute_at(stage, sum_.inner, step);
    Loops dims;
    std::int64_t elements = 1;
    for (const std::size_t d : o.order) {
      dims.push_back("d" + std::to_string(d));
      elements *= span(a, d);
    }
    if (o.moved) {
      w.layout(stage, layout(o));
      w.reorder(stage, dims);
    }
    const std::size_t last = o.order.back();
    const std::int64_t most = kCopyBytes / size_bytes(a.buffer->dtype);
    if (o.order.size() > 1) {  // rows end up in different banks
      const std::size_t row = o.order[o.order.size() - 2];
      w.storage_align(stage, static_cast<int>(row), 2 * most, most);
    }
    std::int64_t lanes = most;
    while (lanes > 1 && (a.buffer->shape[last] % lanes != 0 || span(a, last) % lanes != 0))
      lanes /= 2;
    std::vector<std::int64_t> lengths = {tile_.warps(), x_.target.gpu.warp};
    if (lanes > 1) lengths.push_back(lanes);
    const Loops parts =
        w.split(stage, w.fuse(stage, dims), std::move(lengths), schedule::Tail::kGuard);
    if (elements <= kMaxRounds * tile_.warps() * x_.target.gpu.warp * lanes)
      w.unroll(stage, parts[0]);
    w.annotate(stage, parts[1], schedule::Annotation::kThreadY);
    w.annotate(stage, parts[2], schedule::Annotation::kThreadX);
    if (lanes > 1) w.vectorize(stage, parts[3]);
  }

  Context& x_;
  const Contraction& c_;
  const Host& host_;
  const Stage& s_;
  const Stage& h_;
  bool self_;
  const Instruction& instruction_;
  std::size_t cut_ = 0;  // reduce axis that goes through shared memory step by step
  std::vector<Operand> operands_;
  TensorProblem problem_;
  TensorTile tile_;
  GpuSum sum_;
};

}  // namespace

bool schedule_gpu_tensor(Context& context, const Contraction& contraction, const Host& host) {
  const DType type = contraction.a.buffer->dtype;
  const Instruction* instruction = find_instruction(context.target, type);
  if (!instruction || contraction.b.buffer->dtype != type ||
      contraction.a.buffer == contraction.b.buffer ||
      context.stage(contraction.stage).dtype() != DType::kF32)
    return false;
  GpuTensor tensor(context, contraction, host, *instruction);
  if (!tensor.fits()) return false;
  static constexpr const char* kWords[] = {"threads", "tensor_cores"};
  const std::string& name = context.stage(contraction.stage).op.name;
  if (context.chooser.word(name, "multiply", DecisionKind::kThread, 1, kWords) == 0) return false;
  tensor.run();
  return true;
}

}  // namespace tessera::space
