#include "tessera/support/disk_cache.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/support/cache_entry.h"
#include "tessera/support/files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCacheTest() : folder_(fs::temp_directory_path() / fmt::format("tessera-cache-{}", getpid())) {
    fs::remove_all(folder_);
  }
  ~DiskCacheTest() override { fs::remove_all(folder_); }

  DiskCache cache(std::int64_t limit = 1 << 20) const { return {folder_.string(), limit}; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& e : fs::recursive_directory_iterator(folder_)) {
      if (e.is_regular_file()) out.push_back(e.path());
    }
    return out;
  }

  fs::path folder_;
};

TEST_F(DiskCacheTest, FindsWhatWasStored) {
  const DiskCache c = cache();
  EXPECT_EQ(c.find("question"), std::nullopt);
  EXPECT_FALSE(fs::exists(folder_)) << "looking makes no folder";
  const std::string answer("with a \0 inside", 15);
  ASSERT_TRUE(c.store("question", answer).ok());
  EXPECT_EQ(cache().find("question"), answer);
  EXPECT_EQ(c.find("question "), std::nullopt);
  ASSERT_TRUE(c.store("question", "").ok());
  EXPECT_EQ(c.find("question"), "");
  EXPECT_EQ(c.usage().entries, 1);
}

unsigned mode_of(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST_F(DiskCacheTest, IsForThisUserAlone) {
  const mode_t before = ::umask(0);
  ASSERT_TRUE(cache().store("q", "answer").ok());
  ::umask(before);
  const fs::path file = files().at(0);
  EXPECT_EQ(mode_of(folder_), 0700u);
  EXPECT_EQ(mode_of(file.parent_path()), 0700u);
  EXPECT_EQ(mode_of(file), 0600u);
}

TEST_F(DiskCacheTest, WhatOthersMayWriteIsPassedOverAndSaidOnce) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store("q", "answer").ok());
  const fs::path file = files().at(0);
  (void)take_cache_notes();
  const fs::path group = file.parent_path();
  const std::pair<fs::path, unsigned> cases[] = {{file, 0620},  {file, 0602},    {group, 0720},
                                                 {group, 0702}, {folder_, 0722}, {folder_, 0770}};
  for (const auto& [path, mode] : cases) {
    const unsigned good = mode_of(path);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(c.find("q"), std::nullopt) << path;
    EXPECT_EQ(c.find("q"), std::nullopt);
    const std::vector<std::string> notes = take_cache_notes();
    ASSERT_EQ(notes.size(), 1u) << path;
    EXPECT_EQ(notes[0],
              fmt::format("cache: {} can be written by others (mode {:04o}) and is passed over",
                          path.string(), mode));
    EXPECT_EQ(c.store("q", "other").ok(), path == file);
    (void)c.find("q");
    EXPECT_TRUE(take_cache_notes().empty());
    ASSERT_EQ(::chmod(path.c_str(), good), 0);
  }
  EXPECT_EQ(c.find("q"), "other");
}

TEST_F(DiskCacheTest, WhatBelongsToOthersIsPassedOver) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const DiskCache c = cache();
  ASSERT_TRUE(c.store("q", "answer").ok());
  const fs::path file = files().at(0);
  (void)take_cache_notes();
  for (const fs::path& path : {file, file.parent_path(), folder_}) {
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    EXPECT_EQ(c.find("q"), std::nullopt) << path;
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
    EXPECT_EQ(c.find("q"), "answer");
  }
  const std::vector<std::string> notes = take_cache_notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find(file.string() + " belongs to another user"), std::string::npos);
}

// A link in the place of an entry would lead to bytes of anywhere.
TEST_F(DiskCacheTest, LinksAreNoEntries) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store("q", "answer").ok());
  const fs::path file = files().at(0), moved = folder_ / "moved";
  fs::rename(file, moved);
  fs::create_symlink(moved, file);
  EXPECT_EQ(c.find("q"), std::nullopt);
}

TEST_F(DiskCacheTest, DamagedEntriesAreNotAnswersAndGoAway) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store("q", "some answer").ok());
  const fs::path file = files().at(0);
  const std::string whole = *read_file(file.string());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x20);
    ASSERT_TRUE(write_file(file.string(), {flipped}).ok());
    EXPECT_EQ(c.find("q"), std::nullopt) << i;
    EXPECT_FALSE(fs::exists(file)) << i;
  }
  for (std::size_t n = 0; n < whole.size(); ++n) {
    ASSERT_TRUE(write_file(file.string(), {std::string_view(whole).substr(0, n)}).ok());
    EXPECT_EQ(c.find("q"), std::nullopt) << n;
  }
  ASSERT_TRUE(write_file(file.string(), {whole, "x"}).ok());
  EXPECT_EQ(c.find("q"), std::nullopt);
  ASSERT_TRUE(write_file(file.string(), {whole}).ok());
  EXPECT_EQ(c.find("q"), "some answer");
}

TEST_F(DiskCacheTest, LargeAnswersAreReadInPlace) {
  const DiskCache c = cache();
  for (const std::string& key : {std::string("k"), std::string(70, 'k')}) {
    ASSERT_TRUE(store_entry(c, key, {"one ", "", "answer"}).ok());
    const std::optional<CacheEntry> entry = open_entry(c, key);
    ASSERT_TRUE(entry.has_value());
    EXPECT_EQ(entry->answer, "one answer");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(entry->answer.data()) % CacheEntry::kAlignment, 0u);
    EXPECT_EQ(c.find(key), "one answer");
    ASSERT_TRUE(c.clear().ok());
    EXPECT_EQ(entry->answer, "one answer") << "removed, but still open";
  }
}

TEST_F(DiskCacheTest, TrimRemovesWhatWasUsedLeastRecently) {
  const std::string answer(1000, 'a');
  const DiskCache c = cache(3500);
  const auto age = [&](const std::string& key, int seconds) {
    const std::vector<fs::path> before = files();
    ASSERT_TRUE(c.store(key, answer).ok());
    for (const fs::path& f : files()) {
      if (std::find(before.begin(), before.end(), f) != before.end()) continue;
      const timespec then{::time(nullptr) - seconds, 0};
      const timespec times[2] = {then, then};
      ASSERT_EQ(::utimensat(AT_FDCWD, f.c_str(), times, 0), 0);
    }
  };
  fs::create_directories(folder_);
  age("old but used", 300);
  age("old", 200);
  age("new", 100);
  c.trim();
  EXPECT_EQ(c.usage().entries, 3) << "all of it is below the limit";
  age("newest", 50);
  EXPECT_TRUE(c.find("old but used").has_value());
  c.trim();
  EXPECT_EQ(c.find("old"), std::nullopt);
  EXPECT_TRUE(c.find("old but used").has_value());
  EXPECT_TRUE(c.find("newest").has_value());
  EXPECT_LE(c.usage().bytes, 3500);
}

TEST_F(DiskCacheTest, ClearLeavesOtherFilesAlone) {
  const DiskCache c = cache();
  ASSERT_TRUE(c.store("a", "1").ok());
  ASSERT_TRUE(c.store("b", "2").ok());
  std::ofstream(folder_ / "mine.txt") << "not an entry";
  std::ofstream(files().at(0).string() + ".tmp.1.0") << "left by a process that was killed";
  ASSERT_TRUE(c.clear().ok());
  EXPECT_EQ(c.usage().entries, 0);
  EXPECT_EQ(files(), std::vector<fs::path>{folder_ / "mine.txt"});
}

TEST_F(DiskCacheTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_.string()) << "a file";
  EXPECT_EQ(cache().store("a", "1").error().code, ErrorCode::kIo);
  EXPECT_EQ(cache().find("a"), std::nullopt);
  EXPECT_EQ(cache().usage().entries, 0);
  cache().trim();
}

TEST_F(DiskCacheTest, ThreadsShareAFolder) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      const DiskCache c = cache();
      for (int i = 0; i < 50; ++i) {
        const std::string key = std::to_string(i % 5);
        EXPECT_TRUE(c.store(key, "answer " + key).ok());
        EXPECT_EQ(c.find(key), "answer " + key);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(cache().usage().entries, 5);
}

}  // namespace
}  // namespace tessera
