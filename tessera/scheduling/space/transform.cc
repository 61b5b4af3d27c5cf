#include "tessera/scheduling/space/transform.h"

#include <algorithm>
#include <map>

#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {

void attach_transform(Context& c, std::size_t stage, const std::string& loop) {
  Writer& w = c.writer;
  for (std::size_t i = stage; i-- > 0;) {
    const Stage& p = c.stage(i);
    if (c.done[i] || p.output || p.users.size() != 1 || p.users[0] != stage || !is_transform(p))
      continue;
    w.compute_at(p.op.name, c.stage(stage).op.name, loop);
    // Row after row of the matrix for the same values: what they share need not be kept.
    Loops order, rows;
    for (std::size_t d = 0; d + 1 < p.rank(); ++d) {
      (p.selectors.count(d) > 0 ? rows : order).push_back(p.axis_name(d));
      w.unroll(p.op.name, p.axis_name(d));
    }
    order.insert(order.end(), rows.begin(), rows.end());
    order.push_back(p.axis_name(p.rank() - 1));
    w.reorder(p.op.name, order);
    w.vectorize(p.op.name, order.back());
    c.done[i] = true;
  }
}

std::map<std::size_t, std::int64_t> unrolled_axes(const Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  std::map<std::size_t, std::int64_t> out = s.selectors;
  for (const Access& read : s.reads) {
    const int producer = c.analysis.producer(read.buffer);
    if (producer < 0) continue;
    const Stage& p = c.stage(static_cast<std::size_t>(producer));
    if (p.output || p.users.size() != 1 || !is_transform(p)) continue;
    for (const auto& [axis, modulus] : p.selectors) {
      const int own = read.indices[axis].single_axis();
      if (own >= 0 && modulus == 0 && static_cast<std::size_t>(own) + 1 < s.rank())
        out.emplace(static_cast<std::size_t>(own), 0);
    }
  }
  return out;
}

namespace {

std::int64_t choose_vectors(Context& c, const Stage& s) {
  return c.chooser.number(s.op.name, "vectors", PointKind::kVector, 1, [&] {
    std::vector<std::int64_t> out = {1};
    // Tails are copies of the unrolled body.
    const bool even = std::all_of(s.selectors.begin(), s.selectors.end(), [&](const auto& axis) {
      return axis.second == 0 || s.extent(axis.first) % axis.second == 0;
    });
    if (even && s.extent(s.rank() - 1) >= 2 * c.lanes(s.dtype())) out.push_back(2);
    return out;
  });
}

}  // namespace

bool is_transform(const Stage& s) {
  if (s.reduces() || s.rank() < 2) return false;
  return !s.selectors.empty() && s.selectors.count(s.rank() - 1) == 0;
}

std::optional<TransformChain> find_chain(const Analysis& analysis) {
  const auto feeds = [&](const Access& read, std::size_t user) {
    const int p = analysis.producer(read.buffer);
    if (p < 0) return false;
    const Stage& s = analysis.stages[static_cast<std::size_t>(p)];
    return !s.output && s.users.size() == 1 && s.users[0] == user && is_transform(s);
  };
  for (std::size_t p = 0; p < analysis.stages.size(); ++p) {
    const Stage& product = analysis.stages[p];
    if (!is_contraction(product) || product.users.size() != 1 || product.output) continue;
    const auto input = std::find_if(product.reads.begin(), product.reads.end(),
                                    [&](const Access& read) { return feeds(read, p); });
    if (input == product.reads.end()) continue;
    TransformChain chain{.input = static_cast<std::size_t>(analysis.producer(input->buffer)),
                         .product = p,
                         .output = product.users[0]};
    // One transform along each of two axes.
    const Stage& first = analysis.stages[chain.output];
    if (!is_transform(first)) continue;
    if (first.users.size() == 1 && !first.output && is_transform(analysis.stages[first.users[0]]))
      chain.output = first.users[0];
    const auto& selectors = analysis.stages[chain.output].selectors;
    if (std::any_of(selectors.begin(), selectors.end(),
                    [](const auto& entry) { return entry.second > 0; }))
      return chain;
  }
  return std::nullopt;
}

namespace {

// The axis of the rows of tiles: the first one with tiles, but above that of the columns, which
// make up a row.
std::size_t row_axis(const Stage& output) {
  const auto tiles = std::find_if(output.selectors.begin(), output.selectors.end(),
                                  [](const auto& entry) { return entry.second > 0; });
  if (tiles == output.selectors.end()) return output.rank();
  const bool columns = tiles->first > 0 && tiles->first + 2 == output.rank();
  return columns ? tiles->first - 1 : tiles->first;
}

}  // namespace

bool pays_by_rows(const Context& c, const TransformChain& chain) {
  const auto bytes_of = [&](std::size_t stage) {
    return c.stage(stage).elements() * size_bytes(c.stage(stage).dtype());
  };
  const Stage& output = c.stage(chain.output);
  const std::size_t rows = row_axis(output);
  if (rows == output.rank()) return false;
  const auto tiles = output.selectors.find(rows);
  std::int64_t count =
      parts_of(output.extent(rows), tiles == output.selectors.end() ? 1 : tiles->second);
  for (std::size_t i = 0; i < rows; ++i) count *= output.extent(i);
  double weights = 0;
  for (const Access& read : c.stage(chain.product).reads) {
    if (c.analysis.constant(read.buffer))
      weights += static_cast<double>(read.buffer.size()) * size_bytes(read.buffer->dtype);
  }
  const double written = bytes_of(chain.input) + bytes_of(chain.product);
  const auto l2 = static_cast<double>(c.l2_bytes());
  const std::int64_t rounds = parts_of(count, c.target.code_threads());
  const bool even = 4 * count >= 3 * rounds * c.target.code_threads();
  return even && written > l2 && weights + written / static_cast<double>(count) < 0.75 * l2;
}

void schedule_transform(Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  Writer& w = c.writer;
  const std::string& name = s.op.name;
  const std::map<std::size_t, std::int64_t> unrolled = unrolled_axes(c, stage);
  std::vector<OuterLoop> outer;
  Loops inner;
  const std::size_t row = row_axis(s);
  std::size_t rows_of_tiles = s.rank();  // the loop over them
  for (std::size_t i = 0; i + 1 < s.rank(); ++i) {
    const auto it = unrolled.find(i);
    const std::string& loop = s.axis_name(i);
    if (i == row) rows_of_tiles = outer.size();
    if (it == unrolled.end()) {
      outer.push_back({loop, s.extent(i)});
    } else if (it->second == 0) {
      inner.push_back(loop);
    } else {
      const Loops parts = w.split(name, loop, {at_most(it->second, s.extent(i))});
      outer.push_back({parts[0], parts_of(s.extent(i), it->second)});
      inner.push_back(parts[1]);
    }
  }
  const std::size_t last = s.rank() - 1;
  const std::int64_t lanes = at_most(choose_vectors(c, s) * c.lanes(s.dtype()), s.extent(last));
  const Loops vector = w.split(name, s.axis_name(last), {lanes});
  const bool by_rows = c.chain_output == static_cast<int>(stage);
  outer.push_back({vector[0], parts_of(s.extent(last), lanes)});
  const std::size_t limit = by_rows ? rows_of_tiles + 1 : outer.size();
  Loops order = names_of(outer);
  order.insert(order.end(), inner.begin(), inner.end());
  order.push_back(vector[1]);
  w.reorder(name, order);
  for (const std::string& loop : inner) w.unroll(name, loop);
  w.vectorize(name, vector[1]);
  const std::size_t before = outer.size();
  outer = share_out(c, name, choose_sharing(c, name, s.elements() * (4 + s.cost)), outer, limit);
  if (by_rows) {
    const std::string& loop = outer[rows_of_tiles + outer.size() - before].name;
    for (const std::string& served : c.served) w.compute_at(served, name, loop);
  }
  c.done[stage] = true;
  attach_transform(c, stage, outer.back().name);
}

}  // namespace tessera::space
