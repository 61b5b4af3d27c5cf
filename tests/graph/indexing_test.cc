#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/node_runner.h"

namespace tessera::graph {
namespace {

using testing::counting;
using ::testing::ElementsAre;
using testing::expect_agreement;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::refusal;
using testing::run_definition;
using testing::values_of;

const Attrs kAxis0{{"axis", std::int64_t{0}}};
const Attrs kAxis1{{"axis", std::int64_t{1}}};

TEST(Indexing, Gather) {
  const auto y = expect_agreement("gather", kAxis1, {counting({2, 3}), ints({2}, {-1, 0})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(2, 0, 5, 3));
  expect_agreement("gather", kAxis0,
                   {counting({5, 2}, DType::kF16), ints({2, 3}, {0, 1, 4, -5, 2, 2}, DType::kI32)});
  expect_agreement("gather", kAxis1, {counting({2, 3, 2}), ints({}, {2})});
}

TEST(Indexing, CompiledGatherStaysInside) {
  const auto y = run_definition("gather", kAxis0,
                                {counting({3}), ints({4}, {3, -4, INT64_MAX, INT64_MIN})}, false);
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_THAT(values_of((*y)[0]), ElementsAre(2, 0, 2, 0));
}

TEST(Indexing, KnownPositionsNeedNoChecks) {
  const HostTensor x = counting({4}), indices = ints({2}, {1, 3});
  const TensorType types[] = {{DType::kF32, {4}}, {DType::kI64, {2}}};
  te::DagBuilder b("g");
  const ir::Buffer bx = b.input("x", DType::kF32, {4}), bi = b.input("i", DType::kI64, {2});
  const NodeView node{kAxis0, {&types[0], &types[1]}, {nullptr, &indices}};
  const auto out = find_op("gather")->define(b, "y", node, {bx, bi});
  ASSERT_TRUE(out.ok());
  EXPECT_THAT(te::to_text(b.build(*out)), HasSubstr("x[i[i0]]"));
}

TEST(Indexing, GatherRefuses) {
  const HostTensor x = counting({3, 2});
  EXPECT_THAT(refusal("gather", kAxis0, {x, ints({1}, {3})}), HasSubstr("index 3"));
  EXPECT_THAT(refusal("gather", kAxis0, {x, ints({1}, {-4})}), HasSubstr("index -4"));
  EXPECT_NE(refusal("gather", {{"axis", std::int64_t{2}}}, {x, ints({1}, {0})}), "");
  EXPECT_NE(refusal("gather", kAxis0, {x, floats({1}, {0})}), "");
  EXPECT_NE(refusal("gather", kAxis0, {counting({0, 2}), ints({1}, {0})}), "");
  EXPECT_EQ(refusal("gather", kAxis0, {counting({0, 2}), ints({0}, {})}), "");
}

TEST(Indexing, GatherElements) {
  const auto y =
      expect_agreement("gather_elements", kAxis1, {counting({2, 3}), ints({2, 2}, {0, -1, 1, 1})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(0, 2, 4, 4));
  expect_agreement("gather_elements", kAxis0,
                   {counting({3, 3}), ints({2, 2}, {0, 2, -1, 1}, DType::kI32)});
  EXPECT_NE(refusal("gather_elements", kAxis1, {counting({2, 3}), ints({3, 1}, {0, 0, 0})}), "");
  EXPECT_NE(refusal("gather_elements", kAxis1, {counting({2, 3}), ints({2}, {0, 0})}), "");
}

TEST(Indexing, GatherNd) {
  const Attrs none{{"batch_dims", std::int64_t{0}}}, batch{{"batch_dims", std::int64_t{1}}};
  const HostTensor x = counting({2, 3, 2});
  auto y = expect_agreement("gather_nd", none, {x, ints({2, 2}, {0, -1, 1, 0})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(4, 5, 6, 7));
  y = expect_agreement("gather_nd", batch, {x, ints({2, 1}, {2, 0})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(4, 5, 6, 7));
  expect_agreement("gather_nd", batch, {x, ints({2, 2, 2}, {0, 0, 1, 1, 2, 0, -1, -1})});
  EXPECT_NE(refusal("gather_nd", none, {x, ints({1, 4}, {0, 0, 0, 0})}), "");
  EXPECT_NE(refusal("gather_nd", none, {x, ints({1, 2}, {0, 3})}), "");
  EXPECT_NE(refusal("gather_nd", {{"batch_dims", std::int64_t{2}}}, {x, ints({2, 1}, {0, 0})}), "");
  EXPECT_NE(refusal("gather_nd", batch, {x, ints({3, 1}, {0, 0, 0})}), "");
}

TEST(Indexing, TriluKeepsOneSide) {
  const auto trilu = [](std::int64_t k, std::int64_t upper) {
    const Attrs attrs{{"k", k}, {"upper", upper}};
    return values_of(expect_agreement("trilu", attrs, {counting({2, 3})}).at(0));
  };
  EXPECT_THAT(trilu(0, 1), ElementsAre(0, 1, 2, 0, 4, 5));
  EXPECT_THAT(trilu(1, 0), ElementsAre(0, 1, 0, 3, 4, 5));
  EXPECT_THAT(trilu(INT64_MAX, 1), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(trilu(INT64_MIN, 1), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_NE(refusal("trilu", {{"k", std::int64_t{0}}, {"upper", std::int64_t{1}}}, {counting({3})}),
            "");
}

TEST(Indexing, ReverseSequenceTakesAnyLength) {
  const Attrs attrs{{"batch_axis", std::int64_t{0}}, {"time_axis", std::int64_t{1}}};
  const auto y = expect_agreement("reverse_sequence", attrs,
                                  {counting({4, 3}), ints({4}, {2, 0, 3, INT64_MAX})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(1, 0, 2, 3, 4, 5, 8, 7, 6, 11, 10, 9));
  EXPECT_NE(refusal("reverse_sequence", attrs, {counting({4, 3}), ints({3}, {1, 1, 1})}), "");
}

TEST(Indexing, CacheUpdate) {
  const HostTensor cache = counting({2, 3}), update = floats({2, 2}, {-1, -2, -3, -4});
  const auto run = [&](std::int64_t circular) {
    const Attrs attrs{{"axis", std::int64_t{1}}, {"circular", circular}};
    return values_of(
        expect_agreement("cache_update", attrs, {cache, update, ints({2}, {1, 2})}).at(0));
  };
  EXPECT_THAT(run(0), ElementsAre(0, -1, -2, 3, 4, -3));
  EXPECT_THAT(run(1), ElementsAre(0, -1, -2, -4, 4, -3));
}

TEST(Indexing, SumsInEveryDirection) {
  Rng rng(4);
  for (const DType t : {DType::kI32, DType::kU8, DType::kF32, DType::kF16}) {
    for (const Shape& shape : {Shape{2, 5, 3}, Shape{1, 100, 2}, Shape{1, 1, 1}}) {
      const HostTensor x = random_tensor(t, shape, rng);
      for (const std::int64_t flags : {0, 1, 2, 3}) {
        const Attrs attrs{{"kind", std::string("sum")},
                          {"axis", std::int64_t{1}},
                          {"exclusive", flags & 1},
                          {"reverse", flags >> 1}};
        expect_agreement("cumulate", attrs, {x}, tessera::testing::tolerance(t, shape[1]));
      }
    }
  }
  const auto y = expect_agreement("cumulate",
                                  {{"kind", std::string("sum")},
                                   {"axis", std::int64_t{0}},
                                   {"exclusive", std::int64_t{1}},
                                   {"reverse", std::int64_t{1}}},
                                  {ints({4}, {1, 2, 3, 4})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(9, 7, 4, 0));
}

TEST(Indexing, ProductsInEveryDirection) {
  const auto run = [](const HostTensor& x, std::int64_t exclusive, std::int64_t reverse) {
    const Attrs attrs{{"kind", std::string("prod")},
                      {"axis", std::int64_t{0}},
                      {"exclusive", exclusive},
                      {"reverse", reverse}};
    return values_of(expect_agreement("cumulate", attrs, {x}, 1e-5).at(0));
  };
  const HostTensor x = ints({4}, {2, 3, 4, 5});
  EXPECT_THAT(run(x, 0, 0), ElementsAre(2, 6, 24, 120));
  EXPECT_THAT(run(x, 1, 0), ElementsAre(1, 2, 6, 24));
  EXPECT_THAT(run(x, 0, 1), ElementsAre(120, 60, 20, 5));
  EXPECT_THAT(run(x, 1, 1), ElementsAre(60, 20, 5, 1));
  // A long axis, in blocks: powers of -1.
  HostTensor signs(DType::kF32, {100});
  for (std::int64_t i = 0; i < 100; ++i) signs.set_float(i, -1);
  const auto y = run(signs, 0, 0);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(y[i], i % 2 == 0 ? -1 : 1) << i;
  EXPECT_NE(refusal("cumulate", {{"kind", std::string("max")}, {"axis", std::int64_t{0}}}, {x}),
            "");
}

}  // namespace
}  // namespace tessera::graph
