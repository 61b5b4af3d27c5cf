// tessera dataset verify: files and their checksums.
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/learn/dataset/dataset_stream.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

struct VerifyArgs {
  std::string folder;
  bool json = false;
};

Result<void> read_all(const std::string& folder) {
  TESSERA_TRY(const dataset::DatasetReader reader, dataset::DatasetReader::open(folder));
  return reader.visit([](dataset::Example&) { return Result<void>(); });
}

int run_verify(const VerifyArgs& args) {
  const Result<std::vector<dataset::FileCheck>> files = dataset::verify(args.folder);
  if (!files) return report(files.error());
  bool good = true;
  Json list = Json::array();
  for (const dataset::FileCheck& f : *files) {
    good = good && f.problem.empty();
    list.push_back({{"name", f.name},
                    {"bytes", f.bytes},
                    {"crc32", f.crc32},
                    {"problem", f.problem.empty() ? Json() : Json(f.problem)}});
    if (!args.json) {
      fmt::print("{:<24} {:>12} {}  {}\n", f.name, f.bytes, f.crc32,
                 f.problem.empty() ? "ok" : f.problem);
    }
  }
  // Beyond the bytes: whether they say something that can be used.
  const Result<void> usable = read_all(args.folder);
  if (args.json) print_json({{"good", good && usable.ok()}, {"files", list}});
  if (!usable) return report(usable.error());
  return good ? kOk : kInternal;
}

}  // namespace

void add_dataset_verify(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("verify", "Compare the files of a dataset with its checksums");
  const auto args = std::make_shared<VerifyArgs>();
  sub->add_option("FOLDER", args->folder, "Dataset")->required();
  sub->add_flag("--json", args->json, "Print JSON");
  sub->footer("Examples:\n  tessera dataset verify my.ds");
  sub->callback([args, run] { *run = [args] { return run_verify(*args); }; });
}

}  // namespace tessera::cli
