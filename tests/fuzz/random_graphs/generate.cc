#include "generate.h"

#include <algorithm>

namespace tessera::fuzz {
namespace {

constexpr std::int64_t kOpsets[] = {11, 13, 17, 18, 19, 21, 23, 26, 28};

std::vector<const OpRow*> rows_for(std::int64_t opset, bool waits, const GraphOptions& options) {
  std::vector<const OpRow*> rows;
  for (const OpRow& row : op_rows()) {
    if ((*row.domain != '\0' || row.since <= opset) && (waits || !row.by_data) &&
        (options.only.empty() || options.only.count(row.name) != 0)) {
      rows.push_back(&row);
    }
  }
  return rows;
}

}  // namespace

const std::vector<OpRow>& op_rows() {
  static const std::vector<OpRow> all = [] {
    std::vector<OpRow> rows;
    for (const auto family :
         {pointwise_rows, reduction_rows, movement_rows, indexing_rows, contraction_rows,
          convolution_rows, normalization_rows, quantization_rows, sequence_rows, vision_rows,
          contrib_rows, decoder_rows}) {
      for (const OpRow& row : family()) rows.push_back(row);
    }
    return rows;
  }();
  return all;
}

Case random_graph(std::uint64_t seed, const GraphOptions& options,
                  const std::function<void(const std::string&, const std::string&)>& told) {
  Rng rng(seed * 0x9e3779b97f4a7c15u + 1);
  std::int64_t opset = kOpsets[rng.below(std::ssize(kOpsets))];
  bool waits = rng.chance(0.15);
  std::vector<const OpRow*> rows = rows_for(opset, waits, options);
  if (rows.empty()) rows = rows_for(opset = 28, waits = true, options);
  Draw d(rng.next(), opset, options.max_elements);
  d.waits = waits;
  const auto wanted = static_cast<std::size_t>(options.nodes);
  const OpRow* last = nullptr;
  for (std::int64_t tries = 0; d.nodes() < wanted && tries < 40 * options.nodes; ++tries) {
    const std::size_t before = d.nodes();
    // Two of a kind in a row are what rewrites of pairs look for.
    const bool again = last != nullptr && d.chance(0.15);
    d.set_focus(again);
    const OpRow& row = again ? *last : *d.one_of(rows);
    last = &row;
    if (row.draw(d, row)) continue;
    if (told) told(row.name, d.last_refusal());
    d.take_back(before);
  }
  return d.finish();
}

void add_reached(const Case& c, Reached* reached) {
  const Result<Trace> trace = trace_case(c);
  if (!trace.ok()) return;
  for (const onnx::Node& node : c.model.graph.nodes) {
    const std::string key = node.domain.empty() ? node.op_type : node.op_type + " (contrib)";
    std::set<std::string>& types = (*reached)[key];
    for (const std::vector<std::string>& names : {node.inputs, node.outputs}) {
      const auto known = std::find_if(names.begin(), names.end(),
                                      [&](const std::string& n) { return trace->has(n); });
      if (known == names.end()) continue;
      types.insert(to_text(trace->at(*known).value.dtype()));
      break;
    }
  }
}

std::string table_of(const Reached& reached) {
  constexpr const char* kColumns[] = {"f32", "f64", "f16", "bf16", "i8",  "u8",  "i16",
                                      "u16", "i32", "u32", "i64",  "u64", "bool"};
  std::string out = fmt::format("{:34}", "operator");
  for (const char* t : kColumns) out += fmt::format("{:>5}", t);
  std::size_t pairs = 0;
  for (const auto& [op, types] : reached) {
    out += fmt::format("\n{:34}", op);
    for (const char* t : kColumns) out += fmt::format("{:>5}", types.count(t) != 0 ? "x" : ".");
    pairs += types.size();
  }
  return out +
         fmt::format("\n{} operators, {} pairs of operator and type\n", reached.size(), pairs);
}

}  // namespace tessera::fuzz
