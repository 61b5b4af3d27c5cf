#include "tessera/backend/artifact/object_linker.h"

#include <numeric>

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/backend/artifact/data_image.h"
#include "tessera/backend/artifact/elf.h"
#include "tessera/backend/artifact/embedded_files.h"
#include "tessera/support/files.h"
#include "tessera/support/run_tool.h"
#include "tests/artifact/artifact_fixture.h"

namespace tessera::artifact {
namespace {

using ::testing::HasSubstr;
using Names = std::vector<std::string>;

std::string joined(const std::vector<std::string_view>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::string(),
                         [](std::string all, std::string_view part) { return all.append(part); });
}

std::string compiled(const std::string& folder, const std::string& name, const char* text) {
  EXPECT_TRUE(write_file(folder + "/" + name + ".c", {text}).ok());
  const auto built = run_tool({"cc", "-O1", "-fPIC", "-c", name + ".c", "-o", name + ".o"}, folder);
  EXPECT_TRUE(built.ok()) << built.error().message;
  return *read_file(folder + "/" + name + ".o");
}

// Code and data of two objects and a table of our own refer to each other.
TEST(ObjectLinker, JoinedObjectsRun) {
  const std::string folder = fresh_folder();
  const std::string a = compiled(folder, "a",
                                 "struct row { long n; const char* name; int (*f)(int); };\n"
                                 "extern const struct row table[2]; static int calls;\n"
                                 "int twice(int x) { ++calls; return 2 * x; }\n"
                                 "int entry(int x) { return table[1].f(x) + table[1].name[0] + "
                                 "(int)table[0].n + calls; }\n");
  const std::string b = compiled(folder, "b",
                                 "int twice(int);\n"
                                 "int fourfold(int x) { return twice(twice(x)); }\n");
  struct Row {
    std::int64_t n;
    const char* name;
    int (*f)(int);
  };
  ObjectLinker linker(target::host().arch);
  DataImage image(&linker);
  ASSERT_TRUE(linker.add(a).ok());
  ASSERT_TRUE(linker.add(b).ok());
  std::vector<Row> rows(2, zeroed<Row>());
  rows[0].n = 1000;
  const auto table = image.table(std::span<const Row>(rows));
  image.point(table, sizeof(Row) + offsetof(Row, name), image.text("A"));
  image.point(table, sizeof(Row) + offsetof(Row, f), std::string("fourfold"));
  linker.define("table", table, sizeof(Row) * 2);
  image.finish();
  const auto parts = linker.finish({{"entry", "renamed"}});
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  std::deque<std::string> texts;
  ASSERT_TRUE(write_file(folder + "/all.o", *parts).ok());
  ASSERT_TRUE(write_file(folder + "/liball.a", archive_of(*parts, {"renamed"}, &texts)).ok());
  // A `twice` of its own does not clash: only `renamed` is visible.
  ASSERT_TRUE(write_file(folder + "/main.c", {"int renamed(int); int twice(int x) { return x; }\n"
                                              "int main(void) { return renamed(twice(5)) != "
                                              "20 + 'A' + 1000 + 2; }\n"})
                  .ok());
  for (const char* library : {"all.o", "liball.a"}) {
    const auto built =
        run_tool({"cc", "-Wl,--fatal-warnings", "main.c", library, "-o", "main"}, folder);
    ASSERT_TRUE(built.ok()) << built.error().message;
    EXPECT_TRUE(run_tool({folder + "/main"}, folder).ok()) << library;
  }
}

TEST(ObjectLinker, WhatItMakesCanBeJoinedAgain) {
  const target::Arch arch = target::host().arch;
  const std::string_view runtime = runtime_object(target::Kind::kCpu, arch);
  ASSERT_FALSE(runtime.empty());
  ObjectLinker first(arch);
  ASSERT_TRUE(first.add(runtime).ok());
  const std::string once = joined(*first.finish({{"tsr_entry_run", "run"}}));
  ObjectLinker second(arch);
  const auto added = second.add(once);
  ASSERT_TRUE(added.ok()) << added.error().message;
  EXPECT_TRUE(second.finish({{"run", "run"}}).ok());
  // No longer visible.
  const auto hidden = second.finish({{"tsr_entry_open", "open"}});
  ASSERT_FALSE(hidden.ok());
  EXPECT_THAT(hidden.error().message, HasSubstr("no tsr_entry_open, which open is to be"));
}

TEST(ObjectLinker, RefusesWhatItCannotJoin) {
  const std::string folder = fresh_folder();
  const std::string object = compiled(folder, "f", "int f(void) { return 1; }\n");
  const target::Arch here = target::host().arch;
  const auto message = [&](std::string_view file, target::Arch arch) {
    ObjectLinker linker(arch);
    const auto added = linker.add(file);
    return added.ok() ? "accepted" : added.error().message;
  };
  EXPECT_THAT(message("", here), HasSubstr("cut off"));
  EXPECT_THAT(message(std::string(100, 'x'), here), HasSubstr("not a relocatable ELF64 file"));
  EXPECT_THAT(message(object, here == target::Arch::kX86_64 ? target::Arch::kAArch64
                                                            : target::Arch::kX86_64),
              HasSubstr("of another architecture"));
  for (std::size_t bytes = 0; bytes < object.size(); bytes += 40) {
    EXPECT_NE(message(std::string_view(object).substr(0, bytes), here), "accepted") << bytes;
  }
  ObjectLinker linker(here);
  ASSERT_TRUE(linker.add(object).ok());
  const auto again = linker.add(object);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().message, HasSubstr("f is defined twice"));
}

TEST(EmbeddedFiles, EveryRuntimeOfThisMachineIsThere) {
  for (const target::Kind kind : {target::Kind::kCpu, target::Kind::kCuda, target::Kind::kOpenCl}) {
    const std::string_view object = runtime_object(kind, target::host().arch);
    ASSERT_GT(object.size(), sizeof(Elf64_Ehdr));
    EXPECT_TRUE(find_section(object, ".text").ok());
  }
  EXPECT_TRUE(embedded_file("no such file").empty());
}

}  // namespace
}  // namespace tessera::artifact
