// Results of studies as JSON.
#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "tessera/app/study/paper_study.h"
#include "tessera/support/files.h"
#include "tessera/support/nearest_name.h"

namespace tessera::app {
namespace {

constexpr int kStudyFormat = 1;

StudyResult result_of(const nlohmann::json& j) {
  if (const int format = j.at("format").get<int>(); format != kStudyFormat)
    throw std::runtime_error(fmt::format("format {}, not {}", format, kStudyFormat));
  StudyResult out{.study = j.at("study").get<std::string>(),
                  .data = j.at("data").get<std::string>(),
                  .machine = j.at("machine").get<std::string>(),
                  .version = j.at("version").get<std::string>(),
                  .date = j.at("date").get<std::string>(),
                  .command = j.at("command").get<std::string>(),
                  .measure = j.at("measure").get<std::string>(),
                  .seeds = j.at("seeds").get<std::vector<std::uint64_t>>(),
                  .columns = j.at("columns").get<std::vector<std::string>>(),
                  .rows = {}};
  for (const auto& row : j.at("rows")) {
    out.rows.push_back({row.at("name").get<std::string>(),
                        row.at("values").get<std::vector<std::vector<double>>>()});
  }
  return out;
}

Result<void> check_result(const StudyResult& r) {
  TESSERA_DO(find_study(r.study));
  if (r.rows.empty() || r.columns.empty())
    return make_error(ErrorCode::kInvalidArgument, "{}: no rows or no columns", r.study);
  const std::size_t each = std::max<std::size_t>(1, r.seeds.size());
  for (const StudyRow& row : r.rows) {
    const bool fits = row.values.size() == r.columns.size() &&
                      std::all_of(row.values.begin(), row.values.end(),
                                  [&](const auto& v) { return v.size() == each; });
    if (!fits) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: row '{}' does not have a value for each of {} columns and {} seeds",
                        r.study, row.name, r.columns.size(), each);
    }
  }
  return {};
}

}  // namespace

std::vector<std::uint64_t> StudyOptions::all_seeds() const {
  std::vector<std::uint64_t> out;
  for (int i = 0; i < seeds; ++i) out.push_back(seed + static_cast<std::uint64_t>(i));
  return out;
}

StudyRow single_row(std::string name, const std::vector<double>& values) {
  StudyRow row{std::move(name), {}};
  for (const double v : values) row.values.push_back({v});
  return row;
}

Json to_json(const StudyResult& r) {
  Json rows = Json::array();
  for (const StudyRow& row : r.rows) {
    Json values = Json::array();
    for (const std::vector<double>& v : row.values) values.push_back(Json(v));
    rows.push_back({{"name", row.name}, {"values", std::move(values)}});
  }
  return {{"format", kStudyFormat}, {"study", r.study},       {"data", r.data},
          {"machine", r.machine},   {"version", r.version},   {"date", r.date},
          {"command", r.command},   {"measure", r.measure},   {"seeds", r.seeds},
          {"columns", r.columns},   {"rows", std::move(rows)}};
}

Result<StudyResult> study_from_json(const std::string& text) {
  StudyResult out;
  try {
    out = result_of(nlohmann::json::parse(text));
  } catch (const std::exception& e) {
    return make_error(ErrorCode::kInvalidArgument, "not a result of `tessera study`: {}", e.what());
  }
  TESSERA_DO(check_result(out));
  return out;
}

Result<std::vector<StudyResult>> read_study_results(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  }
  if (error) return make_error(ErrorCode::kInvalidArgument, "{}: {}", folder, error.message());
  std::sort(paths.begin(), paths.end());
  std::vector<StudyResult> out;
  for (const std::string& path : paths) {
    TESSERA_TRY(const std::string text, read_file(path));
    Result<StudyResult> result = study_from_json(text);
    if (!result.ok()) return result.error().with_context(path);
    if (std::any_of(out.begin(), out.end(),
                    [&](const auto& r) { return r.study == result->study; })) {
      return make_error(ErrorCode::kInvalidArgument, "{}: a second result of {}", path,
                        result->study);
    }
    out.push_back(std::move(result).value());
  }
  const auto place = [](const StudyResult& r) {
    const std::vector<PaperStudy>& all = paper_studies();
    return std::find_if(all.begin(), all.end(), [&](const auto& s) { return r.study == s.name; });
  };
  std::sort(out.begin(), out.end(),
            [&](const StudyResult& a, const StudyResult& b) { return place(a) < place(b); });
  return out;
}

Result<const PaperStudy*> find_study(const std::string& name) {
  std::vector<std::string> names;
  for (const PaperStudy& study : paper_studies()) {
    if (name == study.name) return &study;
    names.emplace_back(study.name);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "no study '{}'{} `tessera study --list` lists them", name,
                    suggest_name(name, names, "."));
}

Result<StudyResult> run_study(const PaperStudy& study, const StudyOptions& options) {
  if (study.run == nullptr) {
    return make_error(ErrorCode::kInvalidArgument, "{} is not run: {}", study.name, study.note);
  }
  TESSERA_TRY(StudyResult result, study.run(options));
  result.study = study.name;
  return result;
}

}  // namespace tessera::app
