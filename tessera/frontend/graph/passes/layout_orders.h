// Second memory orders for values, and which nodes can compute in them. A value with an order P may
// be kept as transpose(value, P) instead; a node computes either with all its ordered operands as
// they are, or with all of them in their second order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/graph/passes/permutation.h"

namespace tessera::graph {

// By value; empty where there is one order only (the identity included).
using Orders = std::vector<Permutation>;

enum class NodeRole : std::uint8_t {
  kFixed,     // computes in the first order only
  kTied,      // all tied operands and the result in the same order, first or second
  kLabelled,  // contract: each operand and the result in any order
};

// How one node takes part, given the orders of its values.
struct NodeLayout {
  NodeRole role = NodeRole::kFixed;
  std::vector<bool> tied;  // by input, for kTied: read in the node's order
  // Bytes that the node itself transposes in its first and second order: its work, if it is a
  // transpose, and operands that are not tied but have to follow.
  std::int64_t first_cost = 0, second_cost = 0;
  // Second order: the reshape leaves elements in another order than the first, and the constant
  // operands of the contracts behind it are permuted instead.
  bool shuffles = false;
};
NodeLayout node_layout(const Graph& graph, const Node& node, const Orders& orders,
                       const Uses& uses);

// Extends `orders` from the values that have one to all that a chain of nodes connects with them,
// as far as the nodes can follow. First come, first served.
void spread_orders(const Graph& graph, const Uses& uses, Orders& orders);

// The attributes with which `node` computes in its second order.
Attrs second_attrs(const Graph& graph, const Node& node, const Orders& orders);

// The shape of a pointwise operand at full rank.
Shape full_rank(const Shape& shape, std::size_t rank);

// A convolution of images with channels first.
bool is_channels_first(const Node& node);

// Channels last: (0, 2, ..., rank - 1, 1).
Permutation channels_last_order(std::size_t rank);

}  // namespace tessera::graph
