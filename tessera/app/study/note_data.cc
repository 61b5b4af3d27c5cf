#include "tessera/app/study/note_data.h"

#include "tessera/learn/dataset/training.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/support/split_commas.h"

namespace tessera::app {
namespace {

struct Drawn {
  dataset::SplitOptions options;
  dataset::Split split;
  std::string records;  // of the training part, as notes have it
};

class DataNotes {
 public:
  DataNotes(const EvalOptions& options, const dataset::Dataset& data)
      : o_(options), data_(data), digest_(dataset::digest(data)) {}

  Result<NotedData> add(const std::string& path) const {
    TESSERA_TRY(nn::TrainedNetwork network, nn::load_network(path));
    TESSERA_TRY(const std::vector<Drawn> drawn, draw(path, network.notes));
    NotedData out{.path = path};
    const Drawn* exact = exactly(drawn, network.notes);
    // What an earlier training saw is not known.
    out.exact = exact != nullptr && !network.notes.contains("earlier_splits");
    const nn::KindCounts kinds = exact ? dataset::kinds_of(data_, exact->split) : in_all(drawn);
    for (const auto& [kind, count] : kinds) out.examples += count;
    out.kinds = kinds.size();
    if (kinds.empty()) {
      return make_error(ErrorCode::kInvalidArgument, "{}: was trained on nothing in {}", path,
                        o_.data);
    }
    nn::note_kinds(kinds, &network.notes);
    for (const char* name :
         {"split_how", "training_tasks", "validation_tasks", "time_calibration"}) {
      network.notes.erase(name);
    }
    if (exact) network.notes["split_how"] = dataset::to_note(exact->options);
    if (out.exact) {
      nn::note_tasks(dataset::keys_of(data_, exact->split, dataset::kTrain),
                     dataset::keys_of(data_, exact->split, dataset::kValidation), &network.notes);
    }
    TESSERA_DO(nn::save_network(network, path));
    return out;
  }

 private:
  // The splits that the notes allow: files of before do not say whether reductions were told apart.
  Result<std::vector<Drawn>> draw(const std::string& path, const nn::Notes& notes) const {
    const std::vector<nn::TrainingSplit> trainings = nn::trainings(notes);
    const Result<dataset::SplitKind> kind =
        dataset::split_kind_from_text(trainings.empty() ? "" : trainings.front().kind);
    if (!kind) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: its notes do not say how its data was split", path);
    }
    std::vector<Drawn> out;
    for (const bool by_reduction : {false, true}) {
      dataset::SplitOptions options;
      options.kind = *kind;
      options.holdout = split_commas(trainings.front().holdout);
      options.by_reduction = by_reduction;
      options.quiet = o_.split.quiet;
      TESSERA_TRY(dataset::Split split, dataset::split(data_, options));
      dataset::keep_machine(data_, o_.machine, false, &split);
      std::size_t records = 0;
      for (std::size_t i = 0; i < split.part.size(); ++i) {
        records += split.part[i] == dataset::kTrain ? 1 : 0;
      }
      out.push_back({options, std::move(split), fmt::format("{}", records)});
    }
    return out;
  }

  const Drawn* exactly(const std::vector<Drawn>& drawn, const nn::Notes& notes) const {
    const auto noted = [&](const char* name) {
      const auto found = notes.find(name);
      return found == notes.end() ? std::string() : found->second;
    };
    if (noted("dataset") != digest_) return nullptr;
    const Drawn* out = nullptr;
    for (const Drawn& d : drawn) {
      if (d.records != noted("records")) continue;
      if (out != nullptr) return nullptr;
      out = &d;
    }
    return out;
  }

  nn::KindCounts in_all(const std::vector<Drawn>& drawn) const {
    dataset::Split all = drawn.front().split;
    for (const Drawn& d : drawn) {
      for (std::size_t i = 0; i < all.part.size(); ++i) {
        if (d.split.part[i] != dataset::kTrain) all.part[i] = dataset::kLeftOut;
      }
    }
    return dataset::kinds_of(data_, all);
  }

  const EvalOptions& o_;
  const dataset::Dataset& data_;
  const std::string digest_;
};

}  // namespace

Result<std::vector<NotedData>> note_training_data(const EvalOptions& options) {
  TESSERA_TRY(const dataset::Dataset data, dataset::load(options.data));
  const DataNotes notes(options, data);
  std::vector<NotedData> out;
  for (const EvalSource& source : options.models) {
    TESSERA_TRY(NotedData noted, notes.add(source.path));
    out.push_back(std::move(noted));
  }
  return out;
}

}  // namespace tessera::app
