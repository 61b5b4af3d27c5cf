// The stages of direct convolutions: what operation specs and the operators of the graph share.
#pragma once

#include "tessera/lang/te/ops/window.h"

namespace tessera::te {

struct ConvParams {
  std::vector<Window> windows;
  std::int64_t groups = 1;
  bool channels_first = false;
  bool reads_first = false;  // the image has its channels first, whatever the result has

  bool image_first() const { return channels_first || reads_first; }
};

// Stage `name` over the padded image and weight[co, ci / groups, k...], accumulated in `acc`. Axes
// n, o*, co in memory order, with g (the group) before co when there are groups: the memory is that
// of an image whose channel is g * (co / groups) + co. Reduce axes k*, ci.
Stage conv_stage(DagBuilder& b, const std::string& name, const ir::Buffer& padded,
                 const ir::Buffer& weight, const ConvParams& params, DType acc);

// Stage `name` with one filter per channel: weight[c, k...] or weight[c, 1, k...]. Axes n, o*, c in
// memory order; reduce axes k*.
Stage depthwise_stage(DagBuilder& b, const std::string& name, const ir::Buffer& padded,
                      const ir::Buffer& weight, const ConvParams& params, DType acc);

// Stage `name`, an image of type `out`: `from` as conv_stage made it with its axes g and co merged.
ir::Buffer merge_groups(DagBuilder& b, const std::string& name, const Stage& from,
                        const ConvParams& params, DType out);

}  // namespace tessera::te
