#include "tests/capi/same_code.h"

#include <array>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tessera/tessera.hpp>
#include <unistd.h>

namespace tessera::capi {
namespace {

namespace fs = std::filesystem;

// The digest in the JSON that the program prints; what it printed where there is none.
std::string digest_printed_by(const std::string& arguments) {
  const std::string command = fmt::format("{} {} 2>/dev/null", TESSERA_BINARY, arguments);
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "popen failed";
  std::array<char, 4096> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe)) {
    out.append(block.data(), count);
  }
  if (const int status = ::pclose(pipe); status != 0) {
    return fmt::format("{}: status {}", command, status);
  }
  constexpr std::string_view kName = "\"plan_digest\": \"";
  const std::size_t at = out.find(kName);
  return at == std::string::npos ? out : out.substr(at + kName.size(), 16);
}

fs::path fresh_folder() {
  fs::path folder = fs::path(::testing::TempDir()) / fmt::format("same_code_{}", ::getpid());
  fs::remove_all(folder);
  return folder;
}

std::string run_digest(const std::string& model, const std::string& flags) {
  return digest_printed_by(fmt::format("run '{}' --random --threads 1 --json {}", model, flags));
}

std::string compile_digest(const std::string& model, const std::string& flags,
                           const fs::path& folder) {
  return digest_printed_by(fmt::format("compile '{}' -o {} --emit obj --threads 1 --json {}", model,
                                       (folder / "program").string(), flags));
}

}  // namespace

void expect_same_code_of_program(const std::string& model, const std::string& flags) {
  SCOPED_TRACE(model + " " + flags);
  const fs::path folder = fresh_folder();
  const std::string ran = run_digest(model, flags);
  ASSERT_EQ(ran.size(), 16u) << ran;
  EXPECT_EQ(compile_digest(model, flags, folder), ran);
  EXPECT_NE(run_digest(model, ""), ran) << "the flags change nothing";
  fs::remove_all(folder);
}

void expect_same_code(const std::string& model) {
  SCOPED_TRACE(model);
  const fs::path folder = fresh_folder();
  const std::string ran = run_digest(model, "");
  ASSERT_EQ(ran.size(), 16u) << ran;
  EXPECT_EQ(compile_digest(model, "", folder), ran) << "tessera compile";

  const tsr_api& api = *tsr_get_api(TSR_API_VERSION);
  tsr_compile_options options{};
  options.size = sizeof options;
  options.threads = 1;
  for (const char* target : {static_cast<const char*>(nullptr), "host"}) {
    options.target = target;
    tsr_model* compiled = nullptr;
    const tsr_status status = api.compile(model.c_str(), &options, &compiled);
    ASSERT_EQ(status.code, TSR_OK) << status.message;
    EXPECT_EQ(api.plan_digest(compiled), ran) << "C, target " << (target ? target : "NULL");
    api.free_model(compiled);
  }
  const tsr::Model compiled = tsr::Model::compile(model, {.threads = 1});
  EXPECT_EQ(compiled.plan_digest(), ran) << "C++";
  compiled.save((folder / "saved").string(), {.name = "saved"});
  EXPECT_EQ(tsr::Model::load((folder / "saved").string()).plan_digest(), ran) << "saved and loaded";
  fs::remove_all(folder);
}

}  // namespace tessera::capi
