// Groups of stages as they come from networks: an anchor with what is fused before and after it.
#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

using ir::Buffer;
using ir::Expr;
using te::at;
using te::DagBuilder;
using te::Indices;
using te::NamedAxes;
using te::Reducer;

Expr relu(const Expr& e) { return ir::max(e, ir::imm(e.dtype(), 0)); }

Expr gelu(const Expr& x) {
  const Expr inner = ir::call(ir::Intrinsic::kErf, {x * ir::imm(x.dtype(), 0.70710678)});
  return x * ir::imm(x.dtype(), 0.5) * (inner + ir::imm(x.dtype(), 1));
}

Buffer padded(DagBuilder& b, const Buffer& x, std::int64_t pad) {
  const auto& s = x->shape;
  return b.compute("p", {{"a", s[0]}, {"b", s[1] + 2 * pad}, {"c", s[2] + 2 * pad}, {"d", s[3]}},
                   [&](const Indices& i) {
                     const Expr h = i[1] - pad, w = i[2] - pad;
                     const Expr inside = ir::logical_and(
                         ir::logical_and(ir::le(ir::int_imm(0), h), ir::lt(h, ir::int_imm(s[1]))),
                         ir::logical_and(ir::le(ir::int_imm(0), w), ir::lt(w, ir::int_imm(s[2]))));
                     return ir::select(inside, at(x, {i[0], h, w, i[3]}), ir::imm(x->dtype, 0));
                   });
}

struct ConvShape {
  std::int64_t h, w, ci, co, k, s, pad;
};

// conv + bias + residual + relu, channels last.
te::Dag residual_block(const ConvShape& c) {
  DagBuilder b("block");
  const Buffer x = b.input("x", DType::kF32, {1, c.h, c.w, c.ci});
  const Buffer w = b.constant("w", DType::kF32, {c.co, c.ci, c.k, c.k});
  const Buffer bias = b.constant("bias", DType::kF32, {c.co});
  const std::int64_t oh = (c.h + 2 * c.pad - c.k) / c.s + 1, ow = (c.w + 2 * c.pad - c.k) / c.s + 1;
  const Buffer skip = b.input("skip", DType::kF32, {1, oh, ow, c.co});
  const Buffer in = c.pad > 0 ? padded(b, x, c.pad) : x;
  const NamedAxes axes = {{"n", 1}, {"y", oh}, {"x", ow}, {"o", c.co}};
  const Buffer conv = b.reduce("conv", Reducer::kSum, axes, {{"u", c.k}, {"v", c.k}, {"i", c.ci}},
                               [&](const Indices& i, const Indices& r) {
                                 return at(in, {i[0], i[1] * c.s + r[0], i[2] * c.s + r[1], r[2]}) *
                                        at(w, {i[3], r[2], r[0], r[1]});
                               });
  const Buffer biased =
      b.compute("biased", axes, [&](const Indices& i) { return at(conv, i) + at(bias, {i[3]}); });
  const Buffer sum =
      b.compute("sum", axes, [&](const Indices& i) { return at(biased, i) + at(skip, i); });
  return b.build({b.compute("out", axes, [&](const Indices& i) { return relu(at(sum, i)); })});
}

TEST(Groups, ResidualConvolutions) {
  expect_correct(residual_block({9, 11, 5, 19, 3, 1, 1}));
  expect_correct(residual_block({6, 14, 70, 37, 1, 1, 0}));
  expect_correct(residual_block({4, 7, 40, 33, 3, 1, 1}));
  expect_correct(residual_block({9, 13, 3, 20, 7, 2, 3}));
  expect_correct(residual_block({3, 5, 150, 20, 3, 2, 1}), target::host(), false);
  expect_correct(residual_block({1, 1, 70, 50, 1, 1, 0}));
  expect_correct(residual_block({8, 8, 16, 3, 3, 1, 1}));
}

TEST(Groups, ConvolutionSumsStayInRegistersUpToTheEpilogue) {
  const std::string text = schedule_text(residual_block({56, 56, 64, 256, 1, 1, 0}));
  EXPECT_NE(text.find("compute_inline biased\n"), std::string::npos) << text;
  EXPECT_NE(text.find("compute_inline sum\n"), std::string::npos) << text;
  EXPECT_NE(text.find("compute_at conv out x.0\n"), std::string::npos) << text;
}

// C[b,h,i,j] = sum_k A[b,i,h,k] * B[b,j,h,k], scaled and masked.
te::Dag attention_scores(std::int64_t batch, std::int64_t heads, std::int64_t length,
                         std::int64_t depth) {
  DagBuilder b("scores");
  const Buffer q = b.input("q", DType::kF32, {batch, length, heads, depth});
  const Buffer k = b.input("k", DType::kF32, {batch, length, heads, depth});
  const Buffer mask = b.input("mask", DType::kF32, {batch, length});
  const NamedAxes axes = {{"b", batch}, {"h", heads}, {"i", length}, {"j", length}};
  const Buffer c = b.reduce(
      "dots", Reducer::kSum, axes, {{"k", depth}}, [&](const Indices& i, const Indices& r) {
        return at(q, {i[0], i[2], i[1], r[0]}) * at(k, {i[0], i[3], i[1], r[0]});
      });
  return b.build({b.compute("masked", axes, [&](const Indices& i) {
    return at(c, i) * ir::imm(DType::kF32, 0.125) + at(mask, {i[0], i[3]});
  })});
}

TEST(Groups, BatchedProductsOfStridedOperands) {
  expect_correct(attention_scores(2, 3, 13, 9));
  expect_correct(attention_scores(1, 3, 33, 64));
  expect_correct(attention_scores(1, 1, 5, 8));
}

te::Dag dense_gelu(std::int64_t m, std::int64_t n, std::int64_t k, DType t, bool constant) {
  DagBuilder b("mlp");
  const Buffer x = b.input("x", t, {m, k});
  const Buffer w = constant ? b.constant("w", t, {k, n}) : b.input("w", t, {k, n});
  const Buffer bias = b.constant("bias", t, {n});
  const Buffer scaled = b.compute("scaled", {{"i", m}, {"k", k}},
                                  [&](const Indices& i) { return at(x, i) * ir::imm(t, 0.5); });
  const NamedAxes axes = {{"i", m}, {"j", n}};
  const Buffer c =
      b.reduce("mm", Reducer::kSum, axes, {{"k", k}}, [&](const Indices& i, const Indices& r) {
        return at(scaled, {i[0], r[0]}) * at(w, {r[0], i[1]});
      });
  const Buffer y =
      b.compute("y", axes, [&](const Indices& i) { return at(c, i) + at(bias, {i[1]}); });
  return b.build({b.compute("act", axes, [&](const Indices& i) { return gelu(at(y, i)); })});
}

TEST(Groups, DenseWithPrologueAndGelu) {
  expect_correct(dense_gelu(13, 70, 37, DType::kF32, true));
  expect_correct(dense_gelu(1, 70, 37, DType::kF32, true));
  expect_correct(dense_gelu(3, 70, 37, DType::kF32, false));
  expect_correct(dense_gelu(17, 26, 1100, DType::kF32, true), target::host(), false);
  expect_correct(dense_gelu(17, 50, 29, DType::kF64, false));
  expect_correct(dense_gelu(64, 1, 29, DType::kF32, true));
}

TEST(Groups, TransposedResultOfAProduct) {
  DagBuilder b("t");
  const Buffer x = b.input("x", DType::kF32, {21, 18});
  const Buffer w = b.constant("w", DType::kF32, {18, 26});
  const Buffer c = b.reduce("c", Reducer::kSum, {{"i", 21}, {"j", 26}}, {{"k", 18}},
                            [&](const Indices& i, const Indices& r) {
                              return at(x, {i[0], r[0]}) * at(w, {r[0], i[1]});
                            });
  expect_correct(b.build({b.compute("y", {{"j", 26}, {"i", 21}}, [&](const Indices& i) {
    return relu(at(c, {i[1], i[0]}));
  })}));
}

TEST(Groups, ProductThatIsItselfAnOutput) {
  DagBuilder b("two");
  const Buffer x = b.input("x", DType::kF32, {21, 18});
  const Buffer w = b.constant("w", DType::kF32, {18, 26});
  const NamedAxes axes = {{"i", 21}, {"j", 26}};
  const Buffer c =
      b.reduce("c", Reducer::kSum, axes, {{"k", 18}}, [&](const Indices& i, const Indices& r) {
        return at(x, {i[0], r[0]}) * at(w, {r[0], i[1]});
      });
  const Buffer y = b.compute("y", axes, [&](const Indices& i) { return relu(at(c, i)); });
  expect_correct(b.build({c, y}));
}

TEST(Groups, SquareOfOneMatrix) {
  DagBuilder b("gram");
  const Buffer x = b.input("x", DType::kF32, {21, 18});
  expect_correct(b.build({b.reduce("c", Reducer::kSum, {{"i", 21}, {"j", 21}}, {{"k", 18}},
                                   [&](const Indices& i, const Indices& r) {
                                     return at(x, {i[0], r[0]}) * at(x, {i[1], r[0]});
                                   })}));
}

// Depthwise with padding, bias and a clip.
TEST(Groups, DepthwiseWithClip) {
  for (const std::int64_t stride : {1, 2}) {
    DagBuilder b("dw");
    const Buffer x = b.input("x", DType::kF32, {1, 13, 15, 21});
    const Buffer w = b.constant("w", DType::kF32, {21, 3, 3});
    const Buffer bias = b.constant("bias", DType::kF32, {21});
    const Buffer in = padded(b, x, 1);
    const NamedAxes axes = {
        {"n", 1}, {"y", (13 - 1) / stride + 1}, {"x", (15 - 1) / stride + 1}, {"c", 21}};
    const Buffer conv = b.reduce(
        "conv", Reducer::kSum, axes, {{"u", 3}, {"v", 3}}, [&](const Indices& i, const Indices& r) {
          return at(in, {i[0], i[1] * stride + r[0], i[2] * stride + r[1], i[3]}) *
                 at(w, {i[3], r[0], r[1]});
        });
    expect_correct(b.build({b.compute("clip", axes, [&](const Indices& i) {
      return ir::min(relu(at(conv, i) + at(bias, {i[3]})), ir::imm(DType::kF32, 6));
    })}));
  }
}

// Softmax over the middle axis, and over the last one behind three others.
te::Dag softmax_over(std::vector<std::int64_t> shape, std::size_t axis) {
  DagBuilder b("softmax");
  const Buffer x = b.input("x", DType::kF32, shape);
  NamedAxes all, rest;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    all.emplace_back("d" + std::to_string(d), shape[d]);
    if (d != axis) rest.push_back(all.back());
  }
  const auto with = [&](Indices i, const Expr& r) {
    i.insert(i.begin() + static_cast<std::ptrdiff_t>(axis), r);
    return i;
  };
  const auto without = [&](Indices i) {
    i.erase(i.begin() + static_cast<std::ptrdiff_t>(axis));
    return i;
  };
  const NamedAxes reduce = {{"r", shape[axis]}};
  const Buffer mx =
      b.reduce("mx", Reducer::kMax, rest, reduce,
               [&](const Indices& i, const Indices& r) { return at(x, with(i, r[0])); });
  const Buffer ex = b.compute("ex", all, [&](const Indices& i) {
    return ir::call(ir::Intrinsic::kExp, {at(x, i) - at(mx, without(i))});
  });
  const Buffer sm =
      b.reduce("sm", Reducer::kSum, rest, reduce,
               [&](const Indices& i, const Indices& r) { return at(ex, with(i, r[0])); });
  return b.build({b.compute(
      "y", all, [&](const Indices& i) { return ir::div(at(ex, i), at(sm, without(i))); })});
}

TEST(Groups, SoftmaxOverAnyAxis) {
  expect_correct(softmax_over({3, 7, 37}, 1));
  expect_correct(softmax_over({3, 7, 37}, 0));
  expect_correct(softmax_over({2, 3, 9, 67}, 3));
  expect_correct(softmax_over({50}, 0));
  expect_correct(softmax_over({1, 1}, 1));
}

TEST(Groups, StatisticsThatAreOutputs) {
  DagBuilder b("norm");
  const Buffer x = b.input("x", DType::kF32, {9, 70});
  const Buffer sum = b.reduce("sum", Reducer::kSum, {{"r", 9}}, {{"c", 70}},
                              [&](const Indices& i, const Indices& r) {
                                return at(x, {i[0], r[0]});
                              });
  const Buffer mean = b.compute("mean", {{"r", 9}}, [&](const Indices& i) {
    return at(sum, i) * ir::imm(DType::kF32, 1.0 / 70);
  });
  const Buffer y = b.compute("y", {{"r", 9}, {"c", 70}},
                             [&](const Indices& i) { return at(x, i) - at(mean, {i[0]}); });
  expect_correct(b.build({y, mean}));
}

// Instance normalization, channels first: statistics over two axes.
TEST(Groups, NormalizationOverTwoAxes) {
  DagBuilder b("norm");
  const Buffer x = b.input("x", DType::kF32, {2, 5, 9, 11});
  const NamedAxes rows = {{"n", 2}, {"c", 5}}, window = {{"h", 9}, {"w", 11}};
  const NamedAxes all = {{"n", 2}, {"c", 5}, {"h", 9}, {"w", 11}};
  const Buffer sum =
      b.reduce("sum", Reducer::kSum, rows, window, [&](const Indices& i, const Indices& r) {
        return at(x, {i[0], i[1], r[0], r[1]});
      });
  const Buffer mean = b.compute(
      "mean", rows, [&](const Indices& i) { return at(sum, i) * ir::imm(DType::kF32, 1.0 / 99); });
  const Buffer sq =
      b.reduce("sq", Reducer::kSum, rows, window, [&](const Indices& i, const Indices& r) {
        const Expr d = at(x, {i[0], i[1], r[0], r[1]}) - at(mean, i);
        return d * d;
      });
  expect_correct(b.build({b.compute("y", all, [&](const Indices& i) {
    const Expr variance = at(sq, {i[0], i[1]}) * ir::imm(DType::kF32, 1.0 / 99);
    return ir::div(at(x, i) - at(mean, {i[0], i[1]}),
                   ir::call(ir::Intrinsic::kSqrt, {variance + ir::imm(DType::kF32, 1e-5)}));
  })}));
}

// Concatenation by selects, slice, nearest resize, all in one chain.
TEST(Groups, DataMovement) {
  DagBuilder b("move");
  const Buffer x = b.input("x", DType::kF32, {3, 10, 7});
  const Buffer y = b.input("y", DType::kF32, {3, 10, 5});
  const Buffer cat = b.compute("cat", {{"a", 3}, {"b", 10}, {"c", 12}}, [&](const Indices& i) {
    return ir::select(ir::lt(i[2], ir::int_imm(7)), at(x, i), at(y, {i[0], i[1], i[2] - 7}));
  });
  const Buffer up = b.compute("up", {{"a", 3}, {"b", 20}, {"c", 12}}, [&](const Indices& i) {
    return at(cat, {i[0], ir::floor_div(i[1], ir::int_imm(2)), i[2]});
  });
  expect_correct(b.build({b.compute("out", {{"c", 9}, {"b", 10}, {"a", 3}}, [&](const Indices& i) {
    return relu(at(up, {i[2], i[1] * 2 + 1, i[0] + 2}));
  })}));
}

TEST(Groups, EmptyAndScalarShapes) {
  DagBuilder b("empty");
  const Buffer x = b.input("x", DType::kF32, {0, 5});
  const Buffer e =
      b.compute("e", {{"i", 0}, {"j", 5}}, [&](const Indices& i) { return relu(at(x, i)); });
  const Buffer s =
      b.reduce("s", Reducer::kSum, {{"j", 5}}, {{"i", 0}}, [&](const Indices& i, const Indices& r) {
        return at(x, {r[0], i[0]});
      });
  const Buffer all = b.reduce("all", Reducer::kSum, {}, {{"j", 5}},
                              [&](const Indices&, const Indices& r) { return at(s, {r[0]}); });
  expect_correct(b.build({e, all}));
  DagBuilder m("empty_product");
  const Buffer l = m.input("l", DType::kF32, {5, 0});
  const Buffer r = m.constant("r", DType::kF32, {0, 9});
  expect_correct(m.build({m.reduce("c", Reducer::kSum, {{"i", 5}, {"j", 9}}, {{"k", 0}},
                                   [&](const Indices& i, const Indices& k) {
                                     return at(l, {i[0], k[0]}) * at(r, {k[0], i[1]});
                                   })}));
}

// Bytes of any sign, with the epilogue of a dynamically quantised layer.
te::Dag quantised_product(DType left, DType right, std::int64_t rows, std::int64_t columns,
                          std::int64_t depth) {
  DagBuilder b("quantised");
  const Buffer x = b.input("x", left, {rows, depth});
  const Buffer w = b.constant("w", right, {depth, columns});
  const Buffer offset = b.input("offset", DType::kI32, {});
  const Buffer scale = b.input("scale", DType::kF32, {});
  const NamedAxes axes = {{"i", rows}, {"j", columns}};
  const Buffer sum =
      b.reduce("sum", Reducer::kSum, axes, {{"k", depth}}, [&](const Indices& i, const Indices& r) {
        return ir::cast(DType::kI32, at(x, {i[0], r[0]})) *
               ir::cast(DType::kI32, at(w, {r[0], i[1]}));
      });
  return b.build({b.compute("y", axes, [&](const Indices& i) {
    return relu(ir::cast(DType::kF32, at(sum, i) - at(offset, {})) * at(scale, {}));
  })});
}

TEST(Groups, QuantisedProducts) {
  for (const DType left : {DType::kI8, DType::kU8}) {
    for (const DType right : {DType::kI8, DType::kU8}) {
      expect_correct(quantised_product(left, right, 1, 32, 24));
      expect_correct(quantised_product(left, right, 11, 67, 20));
      expect_correct(quantised_product(left, right, 5, 10, 7));
    }
  }
}

// Depthwise windows nearly as large as the image: the padding is copied.
TEST(Groups, DepthwiseMostlyPadding) {
  expect_correct(dag_of("depthwise:N=2,H=5,W=6,C=330,KH=5,KW=5,P=2"));
  expect_correct(dag_of("depthwise:N=2,H=12,W=13,C=21,KH=5,KW=5,P=2,S=2"));
}

// Fewer output channels than lanes: vectors along the image.
TEST(Groups, FewOutputChannels) {
  const te::Dag image = dag_of("conv_transpose2d:N=1,H=4,W=33,CI=5,CO=3,KH=4,KW=4,S=2,P=1");
  expect_correct(image);
  const std::string text = schedule_text(image, target::find_target("sapphirerapids").value());
  EXPECT_NE(text.find("layout pad d0 d1 d3 d2"), std::string::npos) << text;
  EXPECT_NE(text.find("layout Q d0 d1 d2 d3 d5 d4"), std::string::npos) << text;
  expect_correct(dag_of("conv_transpose2d:N=1,H=17,W=19,CI=5,CO=3,KH=4,KW=4,S=2,P=1"));
  expect_correct(dag_of("conv_transpose2d:N=1,H=5,W=19,CI=5,CO=2,KH=3,KW=3,S=3,P=1"));
  for (const std::int64_t channels : {1, 2, 3}) {
    DagBuilder b("few");
    const Buffer x = b.input("x", DType::kF32, {2, 9, 37, 6});
    const Buffer w = b.constant("w", DType::kF32, {channels, 6, 3, 3});
    const Buffer bias = b.constant("bias", DType::kF32, {channels});
    const Buffer in = padded(b, x, 1);
    const NamedAxes axes = {{"n", 2}, {"y", 9}, {"x", 37}, {"c", channels}};
    const Buffer conv = b.reduce(
        "conv", Reducer::kSum, axes, {{"u", 3}, {"v", 3}, {"k", 6}},
        [&](const Indices& i, const Indices& r) {
          return at(in, {i[0], i[1] + r[0], i[2] + r[1], r[2]}) * at(w, {i[3], r[2], r[0], r[1]});
        });
    expect_correct(b.build({b.compute(
        "y", axes, [&](const Indices& i) { return relu(at(conv, i) + at(bias, {i[3]})); })}));
  }
}

// Twelve channels fill eight lanes and four; rows of an image fill more, which pays for long sums.
TEST(Groups, ChannelsThatAreNoWholeVectors) {
  const target::Target wide = target::find_target("sapphirerapids").value();
  const te::Dag odd = dag_of("conv2d:N=1,H=24,W=62,CI=5,CO=12,KH=7,KW=3,P=1");
  expect_correct(odd);
  EXPECT_NE(schedule_text(odd, wide).find("layout pad d0 d1 d3 d2"), std::string::npos);
  for (const char* spec : {"conv2d:N=1,H=5,W=62,CI=5,CO=12,KH=3,KW=3,P=1",
                           "conv2d:N=1,H=5,W=62,CI=5,CO=8,KH=3,KW=3,P=1",
                           "conv2d:N=1,H=5,W=28,CI=5,CO=12,KH=3,KW=3,P=1"}) {
    const te::Dag dag = dag_of(spec);
    expect_correct(dag);
    EXPECT_EQ(schedule_text(dag, wide).find("layout pad"), std::string::npos) << spec;
  }
}

// One output channel: windows are summed side by side, along an image that is stored for it.
TEST(Groups, OneOutputChannel) {
  const target::Target wide = target::find_target("sapphirerapids").value();
  for (const char* spec :
       {"conv2d:N=2,H=5,W=43,CI=7,CO=1,KH=3,KW=4,P=1",
        "conv2d:N=1,H=9,W=88,CI=33,CO=1,KH=3,KW=1,P=1", "conv1d:N=1,W=131,CI=5,CO=1,KW=9,P=4"}) {
    const te::Dag dag = dag_of(spec);
    expect_correct(dag);
    const std::string text = schedule_text(dag, wide);
    EXPECT_NE(text.find("layout pad"), std::string::npos) << text;
    EXPECT_EQ(text.find("rfactor"), std::string::npos) << text;
  }
  // No windows that overlap, too few of them, or apart: a dot product for each.
  for (const char* spec : {"conv2d:N=1,H=6,W=64,CI=40,CO=1,KH=1,KW=1,P=1",
                           "conv2d:N=1,H=6,W=17,CI=33,CO=1,KH=3,KW=3,P=1",
                           "conv2d:N=1,H=6,W=90,CI=33,CO=1,KH=3,KW=3,S=2,P=1"}) {
    const te::Dag dag = dag_of(spec);
    expect_correct(dag);
    const std::string text = schedule_text(dag, wide);
    EXPECT_EQ(text.find("layout pad"), std::string::npos) << text;
  }
}

TEST(Groups, IntegersAndBooleans) {
  DagBuilder b("ints");
  const Buffer x = b.input("x", DType::kI64, {9, 19});
  const Buffer positive = b.compute("positive", {{"i", 9}, {"j", 19}}, [&](const Indices& i) {
    return ir::lt(ir::imm(DType::kI64, 0), at(x, i));
  });
  const Buffer count = b.reduce("count", Reducer::kSum, {{"i", 9}}, {{"j", 19}},
                                [&](const Indices& i, const Indices& r) {
                                  return ir::cast(DType::kI64, at(positive, {i[0], r[0]}));
                                });
  expect_correct(b.build({positive, count}));
}

}  // namespace
}  // namespace tessera::space
