#include "tessera/app/report/layout_picture.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "tessera/app/plot/svg.h"
#include "tessera/frontend/graph/op.h"

namespace tessera::report {
namespace {

enum class Look : std::uint8_t { kLast, kFirst, kProduct, kMoves, kOther };

struct LookInfo {
  const char *name, *colour;
};
LookInfo info(Look look) {
  switch (look) {
    case Look::kLast:
      return {"channels last", "#a6cee3"};
    case Look::kFirst:
      return {"channels first", "#fdbf6f"};
    case Look::kProduct:
      return {"product", "#b2df8a"};
    case Look::kMoves:
      return {"moves data", "#fb9a99"};
    case Look::kOther:
      break;
  }
  return {"any", "#e8e8e8"};
}

struct DrawnKernel {
  Look look = Look::kOther;
  std::string name, key;
  double bytes = 0, seconds = 0;
  std::vector<std::size_t> sources;  // kernels that it reads
  std::size_t rank = 0, lane = 0;    // where it is drawn
};

Look look_of(const graph::Graph& graph, const task::Group& group) {
  bool moves = true;
  Look look = Look::kOther;
  for (const std::int32_t n : group.nodes) {
    const graph::Node& node = graph.nodes[static_cast<std::size_t>(n)];
    const std::string_view op = node.op->name;
    moves = moves && (op == "transpose" || op == "concat" || op == "slice");
    if (op == "conv_winograd" || op == "conv_transpose_winograd") look = Look::kLast;
    if (op == "contract") look = Look::kProduct;
    if (node.attrs.has("layout")) {
      look = node.attrs.word("layout") == "nhwc" ? Look::kLast : Look::kFirst;
    }
  }
  return moves ? Look::kMoves : look;
}

// Kernels and functions of the host in running order; reshapes stand for what they reshape.
std::vector<DrawnKernel> kernels_of(const task::PlannedGraph& planned, const plan::Plan& times) {
  const task::TaskGraph& tasks = planned.tasks;
  std::vector<DrawnKernel> out;
  std::map<graph::ValueId, std::size_t> made_by;
  for (std::size_t g = 0; g < tasks.groups.size(); ++g) {
    const task::Group& group = tasks.groups[g];
    if (group.kind == task::GroupKind::kAlias) {
      const auto source = made_by.find(group.inputs[0]);
      if (source != made_by.end()) made_by[group.outputs[0]] = source->second;
      continue;
    }
    if (group.kind == task::GroupKind::kEmpty) continue;
    DrawnKernel k;
    k.look = look_of(planned.graph, group);
    if (tasks.call_of_group[g] >= 0) {
      const task::Call& call = tasks.calls[static_cast<std::size_t>(tasks.call_of_group[g])];
      const task::Task& task = tasks.tasks[call.task];
      k.name = task.name;
      k.key = task.key;
      k.bytes = task.bytes;
      if (const plan::PlanEntry* entry = times.find(task.key)) k.seconds = entry->seconds;
    } else {
      k.name = planned.graph.nodes[static_cast<std::size_t>(group.nodes[0])].op->name;
    }
    for (const graph::ValueId id : group.inputs) {
      const auto source = made_by.find(id);
      if (source == made_by.end()) continue;
      if (std::find(k.sources.begin(), k.sources.end(), source->second) != k.sources.end())
        continue;
      k.sources.push_back(source->second);
      k.rank = std::max(k.rank, out[source->second].rank + 1);
    }
    for (const graph::ValueId id : group.outputs) made_by[id] = out.size();
    out.push_back(std::move(k));
  }
  std::map<std::size_t, std::size_t> lanes;
  for (DrawnKernel& k : out) k.lane = lanes[k.rank]++;
  return out;
}

std::string cost_text(const DrawnKernel& k) {
  if (k.seconds > 0) return fmt::format("{:.0f} us", k.seconds * 1e6);
  return k.bytes < 1e6 ? fmt::format("{:.0f} KB", k.bytes * 1e-3)
                       : fmt::format("{:.1f} MB", k.bytes * 1e-6);
}

constexpr int kWidth = 168, kHeight = 20, kGapX = 10, kGapY = 12, kTop = 64, kMargin = 16;
constexpr std::size_t kMostLetters = 24;

int left_of(const DrawnKernel& k) { return static_cast<int>(k.lane) * (kWidth + kGapX); }
int top_of(const DrawnKernel& k) { return kTop + static_cast<int>(k.rank) * (kHeight + kGapY); }

struct Drawing {
  std::string svg;
  int width = 0, height = 0;
};

Drawing draw(const PlanView& view, const plan::Plan& times, int x) {
  const std::vector<DrawnKernel> kernels = kernels_of(*view.planned, times);
  Drawing out;
  double moved_s = 0, moved_bytes = 0;
  int moves = 0;
  for (const DrawnKernel& k : kernels) {
    out.width = std::max(out.width, left_of(k) + kWidth);
    out.height = std::max(out.height, top_of(k) + kHeight);
    if (k.look != Look::kMoves) continue;
    ++moves;
    moved_s += k.seconds;
    moved_bytes += k.bytes;
  }
  out.svg += fmt::format("<text x=\"{}\" y=\"34\" font-weight=\"bold\">{}</text>\n", x,
                         plot::escape(view.title));
  out.svg +=
      fmt::format("<text x=\"{}\" y=\"50\">{} kernels, {} move data only: {:.1f} MB{}</text>\n", x,
                  kernels.size(), moves, moved_bytes * 1e-6,
                  moved_s > 0 ? fmt::format(", {:.0f} us", moved_s * 1e6) : "");
  for (const DrawnKernel& k : kernels) {
    for (const std::size_t s : k.sources) {
      out.svg += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#777\"/>\n",
                             x + left_of(kernels[s]) + kWidth / 2, top_of(kernels[s]) + kHeight,
                             x + left_of(k) + kWidth / 2, top_of(k));
    }
  }
  for (const DrawnKernel& k : kernels) {
    std::string name =
        k.name.size() > kMostLetters ? k.name.substr(0, kMostLetters - 1) + "…" : k.name;
    if (k.look == Look::kMoves) name += " " + cost_text(k);
    out.svg += fmt::format(
        "<g><title>{}: {}, {}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" "
        "fill=\"{}\" stroke=\"#555\"/><text x=\"{}\" y=\"{}\">{}</text></g>\n",
        plot::escape(k.name), info(k.look).name, cost_text(k), x + left_of(k), top_of(k), kWidth,
        kHeight, info(k.look).colour, x + left_of(k) + 5, top_of(k) + 14, plot::escape(name));
  }
  return out;
}

}  // namespace

std::string layout_table(const PlanView& view, const plan::Plan& times) {
  std::string out =
      fmt::format("{}\n{:<15} {:>9} {:>9}  {}\n", view.title, "layout", "KB", "us", "kernel");
  for (const DrawnKernel& k : kernels_of(*view.planned, times)) {
    out += fmt::format("{:<15} {:>9.1f} {:>9}  {}\n", info(k.look).name, k.bytes * 1e-3,
                       k.seconds > 0 ? fmt::format("{:.1f}", k.seconds * 1e6) : "", k.name);
  }
  return out;
}

std::string layout_picture(const std::vector<PlanView>& views, const plan::Plan& times) {
  std::string body;
  int x = kMargin, height = kTop;
  for (const PlanView& view : views) {
    const Drawing drawing = draw(view, times, x);
    body += drawing.svg;
    x += std::max(drawing.width, 2 * kWidth) + 3 * kGapX;
    height = std::max(height, drawing.height);
  }
  int at = kMargin;
  for (const Look look : {Look::kLast, Look::kFirst, Look::kProduct, Look::kMoves, Look::kOther}) {
    body += fmt::format(
        "<rect x=\"{}\" y=\"6\" width=\"12\" height=\"12\" fill=\"{}\" stroke=\"#555\"/><text "
        "x=\"{}\" y=\"16\">{}</text>\n",
        at, info(look).colour, at + 17, info(look).name);
    at += 110;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n{2}</svg>\n",
      std::max(x, at), height + kMargin, body);
}

}  // namespace tessera::report
