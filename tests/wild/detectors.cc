// Models that find things in images: the number of results follows from the data.
#include <algorithm>
#include <cmath>

#include "tests/wild/wild.h"

namespace tessera::wild {
namespace {

constexpr std::int64_t kGrid = 8;

// Overlap of boxes a and b (rows of y1, x1, y2, x2) as a part of their union.
double overlap(const Array& boxes, std::int64_t a, std::int64_t b) {
  const auto side = [&](std::int64_t axis) {
    const double low = std::max(boxes[a * 4 + axis], boxes[b * 4 + axis]);
    return std::max(0.0, std::min(boxes[a * 4 + axis + 2], boxes[b * 4 + axis + 2]) - low);
  };
  const auto area = [&](std::int64_t i) {
    return (boxes[i * 4 + 2] - boxes[i * 4]) * (boxes[i * 4 + 3] - boxes[i * 4 + 1]);
  };
  const double common = side(0) * side(1);
  return common / (area(a) + area(b) - common);
}

// The best box, then the best of those that do not overlap a chosen one.
std::vector<std::int64_t> suppress(const Array& boxes, const Array& scores, std::size_t most,
                                   double most_overlap, double least_score) {
  std::vector<std::int64_t> order, kept;
  for (std::int64_t i = 0; i < boxes.dim(1); ++i) {
    if (scores[i] > least_score) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  for (const std::int64_t i : order) {
    const bool free = std::none_of(kept.begin(), kept.end(), [&](std::int64_t k) {
      return overlap(boxes, i, k) > most_overlap;
    });
    if (free && kept.size() < most) kept.push_back(i);
  }
  return kept;
}

// Squares of 3 x 3 around every cell.
Array grid_boxes() {
  return make({1, kGrid * kGrid, 4}, [](std::int64_t i) {
    const std::int64_t cell = i / 4, axis = i % 4;
    const std::int64_t at = axis % 2 == 0 ? cell / kGrid : cell % kGrid;
    return static_cast<double>(axis < 2 ? at - 1 : at + 2);
  });
}

// A feature pyramid of two levels: the coarse one is resized (linear) and added; boxes of the
// cells with the best scores that do not overlap are returned.
WildModel detector_with_nms_and_resize() {
  Rng rng(101);
  Writer g(17);
  const Array image = random({1, 3, kGrid, kGrid}, rng), fine_w = random({4, 3, 3, 3}, rng);
  const Array coarse_w = random({4, 4, 3, 3}, rng), score_w = random({1, 4, 1, 1}, rng);
  const std::string x = g.input("image", image);
  const auto conv = [&](const std::string& in, const Array& w, std::int64_t stride,
                        std::int64_t pad) {
    return g.add("Conv", {in, g.weight(w)},
                 {attr("strides", Integers{stride, stride}), attr("pads", Integers(4, pad))});
  };
  const std::string fine = g.add("Relu", {conv(x, fine_w, 1, 1)});
  const std::string coarse = conv(fine, coarse_w, 2, 1);
  const std::string scales = g.weight(make({4}, [](std::int64_t i) { return i < 2 ? 1 : 2; }));
  const std::string upsampled =
      g.add("Resize", {coarse, "", scales}, {attr("mode", std::string("linear"))});
  const std::string merged = g.add("Add", {fine, upsampled});
  const std::string scores =
      g.add("Reshape", {g.add("Sigmoid", {conv(merged, score_w, 1, 0)}), g.integers({1, 1, -1})});
  const std::string boxes = g.weight(grid_boxes());
  const auto scalar = [&](double v) { return g.weight(make({}, [v](std::int64_t) { return v; })); };
  const std::string chosen =
      g.add("NonMaxSuppression", {boxes, scores, g.integers({5}), scalar(0.2), scalar(0.5)});
  const std::string column =
      g.add("Slice", {chosen, g.integers({2}), g.integers({3}), g.integers({1})});
  const std::string picked = g.add("Squeeze", {column, g.integers({1})});
  const std::string found = g.add("Gather", {g.add("Squeeze", {boxes, g.integers({0})}), picked},
                                  {attr("axis", std::int64_t{0})});

  const Array f = map(conv2d(image, fine_w, 1, 1), relu), c = conv2d(f, coarse_w, 2, 1);
  const Array m = add(f, make(f.shape, [&](std::int64_t i) {
                        const double row = (static_cast<double>(i / kGrid % kGrid) - 0.5) / 2;
                        const double col = (static_cast<double>(i % kGrid) - 0.5) / 2;
                        return bilinear(c, i / (kGrid * kGrid) * 16, 4, 4, row, col);
                      }));
  const Array s = map(conv2d(m, score_w, 1, 0), sigmoid);
  const Array all = grid_boxes();
  const std::vector<std::int64_t> kept = suppress(all, s, 5, 0.2, 0.5);
  const Array want = make({static_cast<std::int64_t>(kept.size()), 4}, [&](std::int64_t i) {
    return all[kept[static_cast<std::size_t>(i / 4)] * 4 + i % 4];
  });
  return g.finish("detector_with_nms_and_resize", {found, merged}, {to_tensor(want), to_tensor(m)},
                  "selected boxes");
}

// Class scores are enlarged by a cubic resize before the best class of each pixel is taken.
WildModel segmentation_with_cubic_resize() {
  Rng rng(102);
  Writer g(18);
  const Array scores = random({1, 3, 4, 4}, rng);
  const std::string big =
      g.add("Resize", {g.input("scores", scores), "", "", g.integers({1, 3, 8, 8})},
            {attr("mode", std::string("cubic"))});
  const std::string best =
      g.add("ArgMax", {big}, {attr("axis", std::int64_t{1}), attr("keepdims", std::int64_t{0})});
  const auto weight = [](double d) {
    d = std::abs(d);
    if (d <= 1) return (1.25 * d - 2.25) * d * d + 1;
    return d < 2 ? ((-0.75 * d + 3.75) * d - 6) * d + 3 : 0;
  };
  const Array resized = make({1, 3, 8, 8}, [&](std::int64_t i) {
    const double row = (static_cast<double>(i / 8 % 8) - 0.5) / 2;
    const double column = (static_cast<double>(i % 8) - 0.5) / 2;
    double sum = 0;
    for (int r = -3; r < 7; ++r) {
      for (int c = -3; c < 7; ++c) {
        const std::int64_t pixel = std::clamp(r, 0, 3) * 4 + std::clamp(c, 0, 3);
        sum += scores[i / 64 * 16 + pixel] * weight(row - r) * weight(column - c);
      }
    }
    return sum;
  });
  const Array classes = make({1, 8, 8}, [&](std::int64_t i) {
    std::int64_t c = 0;
    for (std::int64_t k = 1; k < 3; ++k) c = resized[k * 64 + i] > resized[c * 64 + i] ? k : c;
    return static_cast<double>(c);
  });
  return g.finish("segmentation_with_cubic_resize", {big, best},
                  {to_tensor(resized), to_tensor(classes, DType::kI64)});
}

// The two best proposals are cut from the features, 2 x 2 samples each.
WildModel two_stage_detector() {
  Rng rng(103);
  Writer g(16);
  const Array features = random({1, 2, 8, 8}, rng), scores = random({4}, rng);
  const Array boxes = make({4, 4}, [](std::int64_t i) {
    return static_cast<double>(i % 4 < 2 ? i / 4 : i / 4 + 3 + i % 2);
  });
  const std::string x = g.input("features", features), s = g.input("scores", scores);
  g.add("TopK", {s, g.integers({2})}, {}, 2);
  const std::string best = g.output(1);
  const std::string rois = g.add("Gather", {g.weight(boxes), best});
  const std::string crops =
      g.add("RoiAlign", {x, rois, g.integers({0, 0})},
            {attr("output_height", std::int64_t{2}), attr("output_width", std::int64_t{2}),
             attr("sampling_ratio", std::int64_t{1})});
  std::vector<std::int64_t> order = {0, 1, 2, 3};
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  const Array want = make({2, 2, 2, 2}, [&](std::int64_t i) {
    const std::int64_t box = order[static_cast<std::size_t>(i / 8)] * 4, channel = i / 4 % 2;
    const auto middle = [&](std::int64_t axis, std::int64_t cell) {
      const double low = boxes[box + axis] - 0.5, high = boxes[box + axis + 2] - 0.5;
      return low + (static_cast<double>(cell) + 0.5) * (high - low) / 2;
    };
    return bilinear(features, channel * 64, 8, 8, middle(1, i / 2 % 2), middle(0, i % 2));
  });
  return g.finish("two_stage_detector", {crops}, {to_tensor(want)});
}

// Cells of a heat map above a threshold, as points of the image.
WildModel keypoints_of_a_heat_map() {
  Rng rng(104);
  Writer g(13);
  const Array heat = random({5, 6}, rng);
  const std::string hot =
      g.add("Greater", {g.input("heat", heat), g.weight(make({}, [](auto) { return 0.5; }))});
  const std::string cells = g.add("Transpose", {g.add("NonZero", {hot})});
  const std::string points =
      g.add("Mul", {g.add("Cast", {cells}, {attr("to", std::int64_t{1})}),
                    g.weight(make({2}, [](auto i) { return i == 0 ? 4 : 8; }))});
  Array want{{0, 2}, {}};
  for (std::int64_t i = 0; i < 30; ++i) {
    if (!(heat[i] > 0.5)) continue;
    want.data.push_back(4 * static_cast<double>(i / 6));
    want.data.push_back(8 * static_cast<double>(i % 6));
    ++want.shape[0];
  }
  return g.finish("keypoints_of_a_heat_map", {points}, {to_tensor(want)}, "non-zero elements");
}

}  // namespace

std::vector<WildModel> detector_models() {
  return {detector_with_nms_and_resize(), segmentation_with_cubic_resize(), two_stage_detector(),
          keypoints_of_a_heat_map()};
}

}  // namespace tessera::wild
