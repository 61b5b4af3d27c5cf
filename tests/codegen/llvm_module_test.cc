#include <gtest/gtest.h>

#include "tessera/backend/codegen/back_ends.h"

namespace tessera::codegen {
namespace {

TEST(LlvmModule, IsLoadedOnce) {
  const Result<const LlvmBackEnd*> first = llvm_back_end(), second = llvm_back_end();
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first.value(), second.value());
}

TEST(LlvmModule, MissingFileIsNamed) {
  const Result<const LlvmBackEnd*> loaded = load_llvm("/nowhere/libtessera_llvm.so", "0.1.0");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(loaded.error().message.find("/nowhere/libtessera_llvm.so"), std::string::npos)
      << loaded.error().message;
}

TEST(LlvmModule, AnotherLibraryIsRefused) {
  const Result<const LlvmBackEnd*> loaded = load_llvm("libm.so.6", "0.1.0");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().message, "cannot load the compiler: libm.so.6 is not of Tessera 0.1.0");
}

TEST(LlvmModule, AnotherVersionIsRefused) {
  const Result<const LlvmBackEnd*> loaded = load_llvm("libtessera_llvm.so", "0.0.9");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().message,
            "cannot load the compiler: libtessera_llvm.so is not of Tessera 0.0.9");
}

}  // namespace
}  // namespace tessera::codegen
