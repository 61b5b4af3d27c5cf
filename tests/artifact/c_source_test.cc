#include "tessera/artifact/c_source.h"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

#include "tessera/artifact/c_parts.h"
#include "tessera/artifact/runtime_sources.h"

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

// Every kind has what its files include, and includes it first.
TEST(RuntimeSources, CompleteAndInOrder) {
  for (const target::Kind kind : {target::Kind::kCpu, target::Kind::kCuda, target::Kind::kOpenCl}) {
    std::vector<std::string_view> seen = {"abi.h", "types.h"};
    for (const std::string_view file : runtime_files(kind)) {
      const auto& all = runtime_sources();
      const auto source = std::find_if(all.begin(), all.end(),
                                       [&](const RuntimeSource& s) { return s.name == file; });
      ASSERT_NE(source, all.end()) << file;
      std::istringstream lines{std::string(source->text)};
      for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("#include \"")) continue;
        const std::size_t from = line.rfind('/') + 1;
        const std::string needs = line.substr(from, line.rfind('"') - from);
        EXPECT_NE(std::find(seen.begin(), seen.end(), needs), seen.end())
            << file << " needs " << needs;
      }
      seen.push_back(file);
    }
  }
}

}  // namespace
}  // namespace tessera::artifact
