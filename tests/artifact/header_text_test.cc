#include "tessera/backend/artifact/header_text.h"

#include <gtest/gtest.h>

namespace tessera::artifact {
namespace {

TEST(Identifier, AlwaysOne) {
  EXPECT_EQ(identifier("mlp"), "mlp");
  EXPECT_EQ(identifier("resnet-50 v1.5"), "resnet_50_v1_5");
  EXPECT_EQ(identifier("3d"), "model_3d");
  EXPECT_EQ(identifier(""), "model_");
  EXPECT_EQ(identifier("na\xc3\xafve"), "na__ve");
  EXPECT_LE(identifier(std::string(500, 'a')).size(), 100u);
}

TEST(HeaderText, HostileNamesStayInsideComments) {
  Metadata m;
  m.name = "net";
  m.inputs = {{"a */ int evil; /* \"", DType::kF32, {2}}};
  const std::string text = header_text(m);
  EXPECT_EQ(text.find("evil;"), std::string::npos);
  EXPECT_NE(text.find("#define NET_INPUT_0_BYTES 8"), std::string::npos) << text;
  EXPECT_EQ(text.find("#include \""), std::string::npos);
}

}  // namespace
}  // namespace tessera::artifact
