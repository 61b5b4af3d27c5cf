// What a language model is asked to write about, and who writes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/learn/lm/language_model.h"
#include "tessera/learn/lm/reader.h"
#include "tessera/machine/runtime/device/device.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::app {

// What is to be scheduled, and the fastest candidate that records know of it.
struct WrittenTask {
  std::unique_ptr<space::Space> space;
  std::optional<decide::Candidate> best;
  double best_s = 0;
};

struct WrittenTaskOptions {
  std::string op, task;  // one of them: a text, or the key of a task of the dataset
  std::string data;      // folder of the dataset
  target::Target target;
  bool with_best = false;  // asks the dataset for the fastest candidate, if there is one
};

Result<WrittenTask> make_written_task(const WrittenTaskOptions& options);

// What reads the sentences, and where.
struct OpenReader {
  std::unique_ptr<runtime::Device> device;  // null: the cores of this machine
  std::unique_ptr<lm::Reader> reader;
  lm::LanguageModel* model = nullptr;  // null: there are no weights
  double load_s = 0;                   // of the weights
};

// `weights` is a file, kShipped or kNoModel; without any, every legal value is as likely as the
// others. `device` is "cpu", or what runtime::open_device knows.
Result<OpenReader> open_reader(const std::string& weights, const std::string& device,
                               const target::Target& target);

}  // namespace tessera::app
