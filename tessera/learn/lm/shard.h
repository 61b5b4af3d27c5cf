// Files of sentences: each subject once, before its sentences, and a few bytes for every answer.
//
// A header (magic, version, schema of the words), then blocks of at most about a megabyte, each
// compressed, with its length and checksum. What a crash cut off is the last block alone.
#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tessera/learn/lm/sentence.h"
#include "tessera/support/result.h"

namespace tessera::lm {

class ShardWriter {
 public:
  // Replaces what is at `path`. kIo: it cannot be written.
  static Result<ShardWriter> create(const std::string& path);

  // Its number, for Sentence::subject of those that follow.
  Result<std::int32_t> add(const Subject& subject);
  // Of a subject that was added. Questions without answers are not asked.
  Result<void> add(const Sentence& sentence);
  // Everything so far is in the file afterwards. Without it the last block is lost.
  Result<void> flush();

  std::size_t sentences() const { return sentences_; }

 private:
  ShardWriter(std::string path, std::ofstream out) : path_(std::move(path)), out_(std::move(out)) {}
  Result<void> end_block();

  std::string path_;
  std::ofstream out_;
  std::string block_;
  std::vector<std::vector<std::int32_t>> value_counts_;  // per subject and question
  std::size_t sentences_ = 0;
};

// Sentences in the order in which they were written; memory: the subjects and one block.
class ShardReader {
 public:
  // kIo: absent or no shard; kUnsupported: another version, or words of another schema.
  static Result<ShardReader> open(const std::string& path);

  // False at the end. kIo: damaged.
  Result<bool> next(Sentence* out);

  // Those met so far: all that sentences given by next() refer to.
  const std::vector<Subject>& subjects() const { return subjects_; }
  // After the end: the file stops within a block, as a crash of its writer leaves it.
  bool torn() const { return torn_; }

 private:
  ShardReader(std::string path, std::ifstream in) : path_(std::move(path)), in_(std::move(in)) {}
  Result<bool> read_block();
  Error damaged() const;

  std::string path_;
  std::ifstream in_;
  std::string block_;
  std::size_t at_ = 0;
  std::vector<Subject> subjects_;
  bool torn_ = false;
};

// Paths of the shards of a folder, by name. kIo: there are none.
Result<std::vector<std::string>> shards_of(const std::string& folder);
std::string shard_path(const std::string& folder, std::size_t number);

}  // namespace tessera::lm
