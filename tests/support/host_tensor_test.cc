#include "tessera/support/host_tensor.h"

#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(CheckedElements, CountsElements) {
  EXPECT_EQ(*checked_elements({}, DType::kF32), 1);
  EXPECT_EQ(*checked_elements({2, 3, 4}, DType::kF32), 24);
  EXPECT_EQ(*checked_elements({2, 0, 4}, DType::kF32), 0);
}

TEST(CheckedElements, RefusesBadShapes) {
  const auto negative = checked_elements({2, -3}, DType::kF32);
  ASSERT_FALSE(negative.ok());
  EXPECT_EQ(negative.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(negative.error().message, "shape 2x-3: negative dimension");
  EXPECT_FALSE(checked_elements({std::int64_t{1} << 40, std::int64_t{1} << 40}, DType::kI8).ok());
  EXPECT_TRUE(checked_elements({std::int64_t{1} << 46}, DType::kI8).ok());
  EXPECT_FALSE(checked_elements({std::int64_t{1} << 46}, DType::kI16).ok());
}

TEST(ShapeText, JoinsDimensions) {
  EXPECT_EQ(to_text(Shape{1, 3, 224, 224}), "1x3x224x224");
  EXPECT_EQ(to_text(Shape{}), "scalar");
}

TEST(HostTensor, StartsZeroAndAligned) {
  const HostTensor t(DType::kF32, {3, 5});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data()) % 64, 0u);
  EXPECT_EQ(t.bytes(), 60u);
  for (std::int64_t i = 0; i < t.size(); ++i) EXPECT_EQ(t.get_float(i), 0);
}

TEST(HostTensor, ViewsShareBytesWithTheirOwner) {
  auto owner = std::make_shared<const std::vector<float>>(100, 2.5F);
  const std::weak_ptr<const std::vector<float>> alive = owner;
  const void* bytes = owner->data();
  HostTensor view = HostTensor::view(DType::kF32, {10, 10}, std::move(owner), bytes);
  EXPECT_EQ(view.data(), bytes);
  EXPECT_EQ(view.get_float(99), 2.5);
  EXPECT_TRUE(view.is_view());
  HostTensor copy = view;
  EXPECT_TRUE(copy.is_view());
  view = HostTensor();
  EXPECT_FALSE(alive.expired()) << "the copy needs it";
  copy = copy.clone();
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(copy.is_view());
  EXPECT_EQ(copy.get_float(0), 2.5);
  EXPECT_FALSE(HostTensor(DType::kF32, {3}).is_view());
  EXPECT_FALSE(HostTensor(DType::kF32, {1 << 20}).is_view()) << "mapped, but its own";
  EXPECT_FALSE(HostTensor().is_view());
}

TEST(HostTensor, AnotherShapeSharesTheBytes) {
  HostTensor t(DType::kI32, {2, 6});
  t.set_int(7, 5);
  const HostTensor other = t.reshaped({4, 3});
  EXPECT_EQ(other.shape(), (Shape{4, 3}));
  EXPECT_EQ(other.data(), t.data());
  EXPECT_EQ(other.get_int(7), 5);
  EXPECT_EQ(t.shape(), (Shape{2, 6}));
}

TEST(HostTensor, EmptyTensorHasMemory) {
  const HostTensor t(DType::kF32, {0, 5});
  EXPECT_EQ(t.size(), 0);
  EXPECT_NE(t.data(), nullptr);
}

TEST(HostTensor, StoresRoundAndWrap) {
  HostTensor half(DType::kF16, {1});
  half.set_float(0, 0.1);
  EXPECT_EQ(half.get_float(0), round_float(DType::kF16, 0.1));
  HostTensor byte(DType::kI8, {1});
  byte.set_int(0, 200);
  EXPECT_EQ(byte.get_int(0), -56);
  HostTensor flag(DType::kBool, {1});
  flag.set_int(0, 7);
  EXPECT_EQ(flag.get_int(0), 1);
}

TEST(HostTensor, EveryTypeReadsBackWhatWasStored) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto t = static_cast<DType>(i);
    HostTensor tensor(t, {2});
    tensor.set_int(1, 1);
    EXPECT_EQ(tensor.get_int(0), 0) << to_text(t);
    EXPECT_EQ(tensor.get_int(1), 1) << to_text(t);
    EXPECT_EQ(tensor.get_float(1), 1) << to_text(t);
  }
}

TEST(HostTensor, CopiesShareAndClonesDoNot) {
  HostTensor a(DType::kI32, {2});
  HostTensor shared = a;
  HostTensor own = a.clone();
  a.set_int(0, 5);
  EXPECT_EQ(shared.get_int(0), 5);
  EXPECT_EQ(own.get_int(0), 0);
}

TEST(RandomTensor, SameSeedSameValuesInRange) {
  Rng one(3), two(3);
  const HostTensor a = random_tensor(DType::kF32, {100}, one);
  const HostTensor b = random_tensor(DType::kF32, {100}, two);
  for (std::int64_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a.get_float(i), b.get_float(i));
    EXPECT_GE(a.get_float(i), -1);
    EXPECT_LE(a.get_float(i), 1);
  }
  const HostTensor u = random_tensor(DType::kU8, {100}, one);
  for (std::int64_t i = 0; i < u.size(); ++i) EXPECT_LE(u.get_int(i), 18);
}

}  // namespace
}  // namespace tessera
