// Constants of compiled models: packed by any number of threads, and held once.
#include <cstring>

#include <gtest/gtest.h>

#include "tessera/backend/exec/compile_model.h"
#include "tessera/backend/exec/prepared_model.h"
#include "tessera/backend/exec/share_constants.h"
#include "tessera/frontend/graph/builder.h"

namespace tessera::exec {
namespace {

using graph::ValueId;

// Two products: with a matrix that is packed in several parts, and with a small one; and a constant
// as an output.
graph::Graph products(const HostTensor& large, const HostTensor& small, const HostTensor& output) {
  graph::GraphBuilder b("products");
  const graph::Attrs attrs = {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}};
  const ValueId x = b.input("x", {DType::kF32, {8, large.shape()[0]}});
  const ValueId first = *b.add("contract", {x, b.constant(large, "large")}, attrs);
  const ValueId second = *b.add("contract", {first, b.constant(small, "small")}, attrs);
  const ValueId constant = b.constant(output, "output");
  return b.finish({second, constant}, {"y", "c"});
}

class Constants : public ::testing::Test {
 protected:
  Constants() {
    Rng rng(4);
    large_ = random_tensor(DType::kF32, {1530, 1700}, rng);
    small_ = random_tensor(DType::kF32, {1700, 24}, rng);
    output_ = random_tensor(DType::kF32, {70, 41}, rng);
  }

  HostTensor large_, small_, output_;
};

TEST_F(Constants, AnyNumberOfThreadsPacksTheSame) {
  const graph::Graph graph = products(large_, small_, output_);
  // Copies: a model that is still there would share its own.
  const auto packed = [&](int threads) {
    const Result<CompiledModel> model =
        compile_model(graph, target::host(), {.build_threads = threads});
    EXPECT_TRUE(model.ok()) << model.error().message;
    std::vector<HostTensor> out;
    for (const HostTensor& t : model->constants) out.push_back(t.clone());
    return out;
  };
  const std::vector<HostTensor> one = packed(1), five = packed(5);
  ASSERT_EQ(one.size(), 3u);
  ASSERT_EQ(five.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const HostTensor &a = one[i], &b = five[i];
    ASSERT_EQ(a.shape(), b.shape());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0) << i;
  }
  EXPECT_NE(graph.value(graph.outputs[1]).constant.data(), nullptr) << "the graph keeps its own";
}

// Many small ones share huge pages, in the order of their use.
TEST_F(Constants, SmallOnesLieSideBySide) {
  Rng rng(5);
  graph::GraphBuilder b("chain");
  ValueId x = b.input("x", {DType::kF32, {8, 512}});
  for (int i = 0; i < 3; ++i) {
    const HostTensor w = random_tensor(DType::kF32, {512, 512}, rng);
    x = *b.add("contract", {x, b.constant(w, fmt::format("w{}", i))},
               {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}});
  }
  const Result<CompiledModel> model = compile_model(b.finish({x}, {"y"}), target::host(), {});
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->constants.size(), 3u);
  for (std::size_t i = 1; i < 3; ++i) {
    const auto* before = model->constants[i - 1].as<char>() + model->constants[i - 1].bytes();
    const auto* at = model->constants[i].as<char>();
    EXPECT_GE(at - before, 64) << "what vectors read behind the last element";
    EXPECT_LE(at - before, 128);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 64, 0u);
  }
}

// Two models of which one weight is the same, and another is not.
TEST_F(Constants, ModelsShareWhatIsTheSame) {
  const auto compile = [&](const HostTensor& small) {
    return std::make_unique<CompiledModel>(
        compile_model(products(large_, small, output_.clone()), target::host(), {}).value());
  };
  Rng rng(6);
  std::unique_ptr<CompiledModel> first = compile(small_);
  std::unique_ptr<CompiledModel> second = compile(random_tensor(DType::kF32, {1700, 24}, rng));
  EXPECT_EQ(first->constants[0].data(), second->constants[0].data());
  EXPECT_NE(first->constants[1].data(), second->constants[1].data());
  ASSERT_LT(output_.bytes(), kSharedConstant);
  EXPECT_NE(first->constants[2].data(), second->constants[2].data()) << "not worth it";
  EXPECT_EQ(first->constant_bytes, second->constant_bytes);
  const std::weak_ptr<const void> shared = first->constants[0].memory();
  const std::weak_ptr<const void> own = first->constants[1].memory();
  first.reset();
  EXPECT_FALSE(shared.expired());
  EXPECT_TRUE(own.expired());
  second.reset();
  EXPECT_TRUE(shared.expired()) << "nobody is left";
}

TEST_F(Constants, AreSharedByTheirBytesAndNotByADigestAlone) {
  offer_constant("digest", small_);
  HostTensor same = small_.clone(), other = small_.clone();
  other.as<float>()[40] += 1;
  EXPECT_FALSE(take_shared_constant("digest", &other));
  EXPECT_FALSE(take_shared_constant("other digest", &same));
  HostTensor flat = small_.clone().reshaped({24, 1700});
  EXPECT_TRUE(take_shared_constant("digest", &flat));
  EXPECT_EQ(flat.data(), small_.data());
  EXPECT_EQ(flat.shape(), (Shape{24, 1700}));
}

// Of a graph that is given away nothing is left but what the kernels read.
TEST_F(Constants, AreReleasedOncePacked) {
  const auto viewed = [](const HostTensor& t, std::weak_ptr<const HostTensor>* alive) {
    auto owner = std::make_shared<const HostTensor>(t.clone());
    *alive = owner;
    const void* bytes = owner->data();
    return HostTensor::view(t.dtype(), t.shape(), std::move(owner), bytes);
  };
  std::weak_ptr<const HostTensor> large, small, output;
  graph::Graph graph =
      products(viewed(large_, &large), viewed(small_, &small), viewed(output_, &output));
  ASSERT_FALSE(large.expired());
  const task::TaskGraph tasks = *task::extract_tasks(graph, {});
  const Result<CompiledModel> model =
      compile_with_code(std::move(graph), tasks, target::host(), {}, nullptr);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE(large.expired());
  EXPECT_TRUE(small.expired());
  EXPECT_TRUE(output.expired()) << "a view is copied, its file may change";
  for (const HostTensor& t : model->constants) EXPECT_FALSE(t.is_view());
  EXPECT_EQ(std::memcmp(model->constants.back().data(), output_.data(), output_.bytes()), 0);
}

}  // namespace
}  // namespace tessera::exec
