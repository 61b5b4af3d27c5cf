// Bundles as files: round trip, going on after a cut, and every kind of damage.
#include "tessera/trials/measure/bundle.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/support/files.h"
#include "tests/runner/runner_case.h"

namespace tessera::runner {
namespace {

using measure::Bundle;
using measure::BundleHeader;
using measure::BundleItem;
using measure::BundleTask;
using measure::BundleWriter;

BundleHeader header() {
  BundleHeader h;
  h.target = "some target";
  h.threads = 2;
  h.sample = "0123456789abcdef";
  return h;
}

BundleTask task(const std::string& key) {
  BundleTask t;
  t.key = key;
  t.name = "matmul";
  t.definition = "text";
  t.flops = 3;
  t.outputs = {{{0, 7}, {1.5, -2}}};
  return t;
}

BundleItem item(std::uint64_t of_task, std::int64_t trial) {
  BundleItem i;
  i.task = of_task;
  i.trial = trial;
  i.candidate = "reasoned: a=1";
  i.schedule = "split C i 4\n";
  i.built.object = std::string(100, static_cast<char>(trial));
  i.built.symbol = "f";
  i.built.layouts = {"", "d1 d0"};
  i.built.shared_bytes = 64;
  return i;
}

// Two tasks, three candidates.
std::string write_bundle(const std::string& path) {
  auto writer = BundleWriter::open(path, header());
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  EXPECT_TRUE(writer->add(task("a")).ok());
  EXPECT_TRUE(writer->add(item(0, 0)).ok());
  EXPECT_TRUE(writer->add(task("b")).ok());
  EXPECT_TRUE(writer->add(item(1, 0)).ok());
  EXPECT_TRUE(writer->add(item(0, 1)).ok());
  EXPECT_TRUE(writer->finish().ok());
  return read_file(path).value();
}

void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TEST(Bundle, ReadsBackWhatWasWritten) {
  const std::string path = fresh_folder("f") + "/a.tsb";
  write_bundle(path);
  const auto bundle = Bundle::open(path);
  ASSERT_TRUE(bundle.ok()) << bundle.error().message;
  EXPECT_EQ(bundle->header(), header());
  ASSERT_EQ(bundle->tasks().size(), 2u);
  EXPECT_EQ(bundle->tasks()[1].key, "b");
  EXPECT_EQ(bundle->tasks()[0].outputs[0].points, (std::vector<std::int64_t>{0, 7}));
  EXPECT_EQ(bundle->tasks()[0].outputs[0].values, (std::vector<double>{1.5, -2}));
  ASSERT_EQ(bundle->size(), 3u);
  const BundleItem last = bundle->item(2).value();
  EXPECT_EQ(last.task, 0u);
  EXPECT_EQ(last.trial, 1);
  EXPECT_EQ(last.built.object, std::string(100, '\1'));
  EXPECT_EQ(last.built.layouts, (std::vector<std::string>{"", "d1 d0"}));
  EXPECT_EQ(last.built.shared_bytes, 64);
}

TEST(Bundle, EveryCutIsRefusedAndEveryFlippedByteToo) {
  const std::string path = fresh_folder("f") + "/a.tsb";
  const std::string whole = write_bundle(path);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    overwrite(path, whole.substr(0, n));
    ASSERT_FALSE(Bundle::open(path).ok()) << "cut at " << n;
    std::string flipped = whole;
    flipped[n] = static_cast<char>(flipped[n] ^ 0x10);
    overwrite(path, flipped);
    ASSERT_FALSE(Bundle::open(path).ok()) << "flipped at " << n;
  }
  overwrite(path, whole + "x");
  EXPECT_FALSE(Bundle::open(path).ok());
  EXPECT_FALSE(Bundle::open(path + ".absent").ok());
}

TEST(Bundle, AnInterruptedBuildGoesOnBehindTheLastWholeFrame) {
  const std::string folder = fresh_folder("f"), path = folder + "/a.tsb";
  const std::string whole = write_bundle(path);
  for (std::size_t n = 0; n < whole.size(); n += 7) {
    overwrite(path, whole.substr(0, n));
    auto writer = BundleWriter::open(path, header());
    ASSERT_TRUE(writer.ok()) << n << ": " << writer.error().message;
    EXPECT_FALSE(writer->finished());
    for (const char* key : {"a", "b"}) {
      const std::vector<std::string>& keys = writer->task_keys();
      if (std::ranges::find(keys, key) != keys.end()) continue;
      ASSERT_TRUE(writer->add(task(key)).ok());
    }
    for (const auto& [t, trial] : {std::pair(0, 0), std::pair(1, 0), std::pair(0, 1)}) {
      const auto of_task = static_cast<std::uint64_t>(t);
      if (writer->has(of_task, trial)) continue;
      ASSERT_TRUE(writer->add(item(of_task, trial)).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
    const auto bundle = Bundle::open(path);
    ASSERT_TRUE(bundle.ok()) << n << ": " << bundle.error().message;
    EXPECT_EQ(bundle->size(), 3u);
    EXPECT_EQ(bundle->tasks().size(), 2u);
  }
}

TEST(Bundle, NothingFollowsTheEnd) {
  const std::string path = fresh_folder("f") + "/a.tsb";
  const std::string whole = write_bundle(path);
  auto writer = BundleWriter::open(path, header());
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer->add(task("c")).error().code, ErrorCode::kInvalidArgument);
  const auto refused = writer->add(item(0, 7));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("remove it"), std::string::npos);
  EXPECT_FALSE(writer->has(0, 7));
  EXPECT_TRUE(writer->finish().ok());
  EXPECT_EQ(read_file(path).value(), whole);
}

TEST(Bundle, WritersRefuseWhatIsNotTheirs) {
  const std::string folder = fresh_folder("f"), path = folder + "/a.tsb";
  write_bundle(path);
  BundleHeader other = header();
  other.target = "another";
  EXPECT_EQ(BundleWriter::open(path, other).error().code, ErrorCode::kInvalidArgument);
  const auto first = BundleWriter::open(path, header());
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->finished());
  EXPECT_EQ(BundleWriter::open(path, header()).error().code, ErrorCode::kUnavailable);
  overwrite(folder + "/letter.txt", "dear reader, this is no bundle");
  EXPECT_FALSE(BundleWriter::open(folder + "/letter.txt", header()).ok());
  EXPECT_EQ(read_file(folder + "/letter.txt").value(), "dear reader, this is no bundle");
  EXPECT_FALSE(Bundle::open(folder + "/letter.txt").ok());
  BundleHeader stale = header();
  stale.sample = "of yesterday";
  EXPECT_FALSE(BundleWriter::open(folder + "/a.tsb", stale).ok());
  BundleHeader newer = header();
  newer.version = 99;
  { ASSERT_TRUE(BundleWriter::open(folder + "/new.tsb", newer)->finish().ok()); }
  EXPECT_NE(Bundle::open(folder + "/new.tsb").error().message.find("another version"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::runner
