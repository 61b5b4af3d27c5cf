// A bundle: built candidates of some tasks in one file, to be measured on another machine.
//
// The file is a magic word and then frames: kind, size, checksum, body. Frames are appended whole
// and in any order but that a task comes before its candidates; the last says that nothing is
// missing. What an interrupted build leaves behind the last whole frame is dropped when it goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/measure/messages.h"

namespace tessera::measure {

struct BundleHeader {
  std::uint32_t version = 4;
  std::string target;            // target::to_text
  int threads = 1;               // that the candidates were sampled for
  std::uint64_t input_seed = 1;  // of kernel::random_inputs
  std::string producer;          // version of the program and its command
  std::string sample;            // digest of the sample that it was built of

  friend bool operator==(const BundleHeader&, const BundleHeader&) = default;
};
template <class A>
void fields(A& a, BundleHeader& h) {
  a(h.version, h.target, h.threads, h.input_seed, h.producer, h.sample);
}

// The interpreter's values at some elements of one output.
struct BundleOutput {
  std::vector<std::int64_t> points;  // row-major
  std::vector<double> values;
};
template <class A>
void fields(A& a, BundleOutput& o) {
  a(o.points, o.values);
}

struct BundleTask {
  std::string key, name;
  std::string definition;  // te::to_text: inputs, outputs and what is computed
  double flops = 0, bytes = 0;
  std::vector<BundleOutput> outputs;
};
template <class A>
void fields(A& a, BundleTask& t) {
  a(t.key, t.name, t.definition, t.flops, t.bytes, t.outputs);
}

struct BundleItem {
  std::uint64_t task = 0;          // index, in the order of the file
  std::int64_t trial = 0;          // of the sample
  std::uint64_t seed = 0;          //
  std::string candidate;           // text of space::Space::to_text
  std::string schedule;            // the steps that were built
  Outcome outcome = Outcome::kOk;  // else why it could not be built; built.error has the reason
  Built built;
};
template <class A>
void fields(A& a, BundleItem& i) {
  a(i.task, i.trial, i.seed, i.candidate, i.schedule, i.outcome, i.built);
}

// A bundle that is read: header and tasks in memory, candidates from the file.
class Bundle {
 public:
  // Reads the whole file once and compares every checksum. kInvalidArgument: not a bundle, damaged,
  // of another version, or not built to its end.
  static Result<Bundle> open(const std::string& path);
  Bundle(Bundle&&) noexcept;
  Bundle& operator=(Bundle&&) noexcept;
  ~Bundle();

  const BundleHeader& header() const;
  const std::vector<BundleTask>& tasks() const;
  std::size_t size() const;  // candidates
  Result<BundleItem> item(std::size_t index) const;

 private:
  struct Impl;
  explicit Bundle(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A bundle that is built; no two processes at a time.
class BundleWriter {
 public:
  // Begins a file, or goes on with one of the same header. kUnavailable while another process
  // writes it; kInvalidArgument where it is something else.
  static Result<BundleWriter> open(const std::string& path, const BundleHeader& header);
  BundleWriter(BundleWriter&&) noexcept;
  BundleWriter& operator=(BundleWriter&&) noexcept;
  ~BundleWriter();

  bool finished() const;
  const std::vector<std::string>& task_keys() const;  // so far, in order
  bool has(std::uint64_t task, std::int64_t trial) const;
  // kInvalidArgument once it is finished: the end says that nothing follows.
  Result<void> add(const BundleTask& task);
  Result<void> add(const BundleItem& item);
  Result<void> finish();

 private:
  struct Impl;
  explicit BundleWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::measure
