#include "tessera/scheduling/schedule/state.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

namespace tessera::schedule {

Result<int> Stage::find_leaf(const std::string& iter) const {
  for (const int id : leaves) {
    if (iters[static_cast<std::size_t>(id)].name == iter) return id;
  }
  std::vector<std::string> names;
  for (const int id : leaves) names.push_back(iters[static_cast<std::size_t>(id)].name);
  return make_error(ErrorCode::kIllegalSchedule, "stage {} has no loop {}; its loops are: {}",
                    name(), iter, fmt::join(names, " "));
}

int Stage::position(int id) const {
  const auto it = std::find(leaves.begin(), leaves.end(), id);
  return it == leaves.end() ? -1 : static_cast<int>(it - leaves.begin());
}

const Stage* State::find(const std::string& name) const {
  for (const Stage& s : stages) {
    if (s.name() == name) return &s;
  }
  return nullptr;
}

Stage* State::find(const std::string& name) {
  return const_cast<Stage*>(std::as_const(*this).find(name));
}

Result<Stage*> State::stage(const std::string& name) {
  if (Stage* s = find(name)) return s;
  std::vector<std::string> names;
  for (const Stage& s : stages) names.push_back(s.name());
  return make_error(ErrorCode::kIllegalSchedule, "no stage {}; stages are: {}", name,
                    fmt::join(names, " "));
}

int State::index_of(const std::string& name) const {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].name() == name) return static_cast<int>(i);
  }
  return -1;
}

Stage make_stage(te::Op op) {
  Stage s;
  // Splits add several for each axis.
  s.iters.reserve(4 * (op.axes.size() + op.reduce_axes.size()));
  s.leaves.reserve(s.iters.capacity());
  for (const te::Axis& a : op.axes)
    s.iters.push_back({.name = a.var.as<ir::Var>()->name, .extent = a.extent});
  for (const te::Axis& a : op.reduce_axes) {
    s.iters.push_back({.name = a.var.as<ir::Var>()->name, .extent = a.extent, .reduce = true});
  }
  for (std::size_t i = 0; i < s.iters.size(); ++i) s.leaves.push_back(static_cast<int>(i));
  s.op = std::move(op);
  return s;
}

State initial_state(const te::Dag& dag) {
  State state;
  state.dag = {.name = dag.name, .inputs = dag.inputs, .ops = {}, .outputs = dag.outputs};
  state.stages.reserve(dag.ops.size() + 4);  // steps that copy a tensor add a stage
  for (const te::Op& op : dag.ops) state.stages.push_back(make_stage(op));
  return state;
}

namespace {

const char* annotation_prefix(Annotation a) {
  switch (a) {
    case Annotation::kNone:
      return "for";
    case Annotation::kUnroll:
      return "unroll";
    case Annotation::kVectorize:
      return "vectorize";
    case Annotation::kParallel:
      return "parallel";
    case Annotation::kVThread:
      return "vthread";
    case Annotation::kBlockX:
      return "blockIdx.x";
    case Annotation::kThreadX:
      return "threadIdx.x";
    case Annotation::kBlockY:
      return "blockIdx.y";
    case Annotation::kThreadY:
      return "threadIdx.y";
    case Annotation::kBlockZ:
      return "blockIdx.z";
    case Annotation::kThreadZ:
      return "threadIdx.z";
    case Annotation::kTensorize:
      return "tensorize";
  }
  return "for";
}

}  // namespace

std::string to_text(const State& state) {
  std::string out;
  for (const Stage& s : state.stages) {
    out += "stage " + s.name();
    if (s.attach.kind == Attach::Kind::kInline) out += " inline";
    if (s.attach.kind == Attach::Kind::kAt) {
      const Stage* target = state.find(s.attach.stage);
      out += fmt::format(" at {} {}", s.attach.stage,
                         target->iters[static_cast<std::size_t>(s.attach.iter)].name);
    }
    out += "\n";
    std::string indent = "  ";
    for (const int id : s.leaves) {
      const Iter& it = s.iters[static_cast<std::size_t>(id)];
      out += fmt::format("{}{} {} in {}{}\n", indent, annotation_prefix(it.annotation), it.name,
                         it.extent, it.reduce ? " (reduce)" : "");
      indent += "  ";
    }
  }
  return out;
}

std::string to_text(const Layout& layout) {
  std::vector<std::string> parts;
  for (const LayoutDim& d : layout) {
    std::string part = fmt::format("d{}", d.dim);
    if (d.divisor != 1) part += fmt::format("/{}", d.divisor);
    if (d.modulus != 0) part += fmt::format("%{}", d.modulus);
    parts.push_back(part);
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

namespace {

// Reads a positive integer at the front of `text` and removes it.
bool take_number(std::string_view* text, std::int64_t* value) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc() || *value < 0) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return true;
}

Result<LayoutDim> layout_dim_from_text(std::string_view part) {
  const Error bad =
      make_error(ErrorCode::kInvalidArgument,
                 "layout part '{}' is not of the form dN, dN/F, dN%F or dN/F%G", part);
  LayoutDim d;
  std::int64_t number = 0;
  if (part.empty() || part[0] != 'd') return bad;
  part.remove_prefix(1);
  if (!take_number(&part, &number) || number > 15) return bad;
  d.dim = static_cast<int>(number);
  if (!part.empty() && part[0] == '/') {
    part.remove_prefix(1);
    if (!take_number(&part, &d.divisor) || d.divisor < 1) return bad;
  }
  if (!part.empty() && part[0] == '%') {
    part.remove_prefix(1);
    if (!take_number(&part, &d.modulus) || d.modulus < 1) return bad;
  }
  if (!part.empty()) return bad;
  return d;
}

}  // namespace

Result<Layout> layout_from_text(std::string_view text) {
  Layout layout;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) {
      TESSERA_TRY(const LayoutDim d, layout_dim_from_text(text.substr(0, end)));
      layout.push_back(d);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return layout;
}

Result<void> check_layout(const Layout& layout, std::size_t rank) {
  for (std::size_t dim = 0; dim < rank; ++dim) {
    std::vector<LayoutDim> parts;
    for (const LayoutDim& d : layout) {
      if (d.dim == static_cast<int>(dim)) parts.push_back(d);
    }
    std::sort(parts.begin(), parts.end(),
              [](const auto& a, const auto& b) { return a.divisor < b.divisor; });
    std::int64_t expected = 1;  // divisor of the next part
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool last = i + 1 == parts.size();
      if (parts[i].divisor != expected || (parts[i].modulus == 0) != last) {
        return make_error(ErrorCode::kIllegalSchedule,
                          "layout '{}' does not store d{} exactly once", to_text(layout), dim);
      }
      expected *= std::max<std::int64_t>(parts[i].modulus, 1);
    }
    if (parts.empty()) {
      return make_error(ErrorCode::kIllegalSchedule, "layout '{}' leaves out d{}", to_text(layout),
                        dim);
    }
  }
  for (const LayoutDim& d : layout) {
    if (d.dim >= static_cast<int>(rank)) {
      return make_error(ErrorCode::kIllegalSchedule, "layout '{}' names d{} of a tensor of rank {}",
                        to_text(layout), d.dim, rank);
    }
  }
  return {};
}

std::vector<std::int64_t> layout_shape(const Layout& layout,
                                       const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> out;
  for (const LayoutDim& d : layout) {
    const std::int64_t extent = shape[static_cast<std::size_t>(d.dim)];
    const std::int64_t blocks = (extent + d.divisor - 1) / d.divisor;
    out.push_back(d.modulus == 0 ? blocks : d.modulus);
  }
  return out;
}

}  // namespace tessera::schedule
