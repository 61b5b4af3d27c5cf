// GGUF files where any model may stand.
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/open_model.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/support/model_name.h"
#include "tessera/support/temporary_folder.h"
#include "tests/generate/tiny_decoder.h"

namespace tessera::app {
namespace {

class GgufModel : public ::testing::Test {
 protected:
  GgufModel() : folder_(TemporaryFolder::make("gguf_model").value()) {
    testing::TinyDecoder d;
    d.layers = 1;
    d.blocks = "Q4_1";
    save(testing::write_decoder(d));
    options_.target = target::code_target(target::host(), 1);
    options_.import.symbols = {{"sequence", 3}, {"capacity", 8}, {"wanted", 1}};
  }
  std::string path() const { return folder_.path() + "/m.gguf"; }
  void save(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  TemporaryFolder folder_;
  CompileOptions options_;
};

TEST_F(GgufModel, IsToldFromOtherFiles) {
  EXPECT_TRUE(names_model("a.gguf"));
  save("no model");
  EXPECT_NE(load_onnx(path()).error().message.find("not an ONNX model"), std::string::npos);
}

TEST_F(GgufModel, IsChecked) {
  const auto report = check_model(path(), options_);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->unsupported.empty());
  EXPECT_TRUE(report->data_dependent.empty());
  EXPECT_TRUE(report->host.empty());
  EXPECT_EQ(load_outline(path())->graph.inputs.size(), 5U);
}

TEST_F(GgufModel, RunsAndIsFoundAgainByItsContent) {
  options_.cache = std::make_shared<const kernel::KernelCache>(
      DiskCache(folder_.path() + "/cache", std::int64_t{64} << 20));
  const auto open = [&] {
    ModelSource source(path());
    auto model = open_model(source, options_);
    EXPECT_TRUE(model.ok()) << model.error().message;
    return std::move(*model);
  };
  const OpenModel first = open();
  EXPECT_EQ(first.prepared.entry, nullptr);
  EXPECT_NE(open().prepared.entry, nullptr);
  exec::ModelRunner runner(first.model(), *first.device);
  ASSERT_TRUE(runner.run().ok());
  testing::TinyDecoder other;
  other.layers = 1;
  save(testing::write_decoder(other));
  EXPECT_EQ(open().prepared.entry, nullptr) << "another file";
}

// A token that the table does not have is refused, not read.
TEST_F(GgufModel, ChecksTokens) {
  ModelSource source(path());
  const auto model = open_model(source, options_);
  ASSERT_TRUE(model.ok()) << model.error().message;
  exec::ModelRunner runner(model->model(), *model->device);
  static_cast<std::int64_t*>(runner.input_data(0))[2] = 40;
  EXPECT_EQ(runner.run().error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::app
