// A cost model that is a program: one line of JSON asks, one answers.
#include "tessera/learn/model/models/own.h"
#include "tessera/learn/model/row_schema.h"
#include "tessera/support/json_lines.h"

namespace tessera::model {
namespace {

using nlohmann::json;

constexpr int kProtocolVersion = 1;
constexpr std::size_t kScoredAtOnce = 256;  // keeps a line below a few megabytes

class ProgramModel final : public OwnModel {
 public:
  ProgramModel(std::unique_ptr<LineProgram> program, const std::string& rows)
      : OwnModel(rows), program_(std::move(program)) {}

 protected:
  Result<std::vector<float>> score(const feature::FeatureSet& features) const override {
    std::vector<float> out;
    const float* row = features.values.data();
    json candidates = json::array();
    for (std::size_t i = 0; i < features.candidates(); ++i) {
      json rows = json::array();
      for (std::int32_t r = 0; r < features.row_count[i]; ++r, row += features.columns)
        rows.push_back(std::vector<float>(row, row + features.columns));
      candidates.push_back(std::move(rows));
      if (candidates.size() < kScoredAtOnce && i + 1 < features.candidates()) continue;
      TESSERA_TRY(const std::vector<float> scores,
                  converse(*program_, {{"do", "score"}, {"candidates", candidates}},
                           [](const json& j) { return j.at("scores").get<std::vector<float>>(); }));
      if (const auto ok = check_own_scores(program_->command(), scores, candidates.size()); !ok)
        return ok.error();
      out.insert(out.end(), scores.begin(), scores.end());
      candidates = json::array();
    }
    return out;
  }

 private:
  std::unique_ptr<LineProgram> program_;
};

}  // namespace

Result<std::unique_ptr<CostModel>> load_own_program(const std::string& command) {
  TESSERA_TRY(std::unique_ptr<LineProgram> program, LineProgram::start(command));
  json names;
  for (const char* rows : {"statement", "loop", "step", "curve"}) {
    TESSERA_TRY(names[rows], row_names(rows));
  }
  const json start = {{"do", "start"},
                      {"for", "cost model"},
                      {"version", kProtocolVersion},
                      {"rows", std::move(names)}};
  const Result<std::string> rows = converse(
      *program, start, [](const json& j) { return j.value("rows", std::string("statement")); });
  if (!rows.ok()) return Error{ErrorCode::kInvalidArgument, rows.error().message};
  TESSERA_DO(check_own_rows(command, *rows));
  return std::unique_ptr<CostModel>(std::make_unique<ProgramModel>(std::move(program), *rows));
}

}  // namespace tessera::model
