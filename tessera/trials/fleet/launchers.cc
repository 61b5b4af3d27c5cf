#include "tessera/trials/fleet/launchers.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/support/json.h"
#include "tessera/trials/fleet/fit.h"

namespace tessera::fleet {
namespace {

constexpr int kMostAgents = 100'000, kMostThreads = 1024;

// The time that an agent has to give back what it holds.
constexpr int kGraceSeconds = 30;

// The secret of Kubernetes that has the passwords, as its file "pgpass", and where it is mounted.
constexpr const char* kPasswords = "tessera-pgpass";
constexpr const char* kPasswordFolder = "/etc/tessera";

Result<void> check(const LaunchOptions& o) {
  if (o.database.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no database: give its URL with --db");
  }
  if (o.threads < 1 || o.threads > kMostThreads || o.count < 1 || o.count > kMostAgents) {
    return make_error(ErrorCode::kInvalidArgument, "{} agents of {} threads cannot be started",
                      o.count, o.threads);
  }
  TESSERA_TRY([[maybe_unused]] const Labels labels, labels_from_text(o.labels));
  for (const std::string* text : {&o.program, &o.database, &o.labels, &o.image}) {
    const bool control = std::ranges::any_of(
        *text, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; });
    if (control) {
      return make_error(ErrorCode::kInvalidArgument, "a control character in '{}'", *text);
    }
  }
  return {};
}

std::vector<std::string> words_of(const LaunchOptions& o) {
  std::vector<std::string> words = {o.program,  "agent",     "--db",
                                    o.database, "--threads", std::to_string(o.threads)};
  if (!o.labels.empty()) words.insert(words.end(), {"--labels", o.labels});
  return words;
}

// As systemd.service(5) reads words: % and $ begin something else.
std::string systemd_word(const std::string& word) {
  std::string out = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '%' || c == '$') out += c;
    out += c;
  }
  return out + "\"";
}

std::string shell_word(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

Result<std::string> systemd_unit(const LaunchOptions& options) {
  TESSERA_DO(check(options));
  if (!options.program.starts_with('/')) {
    return make_error(ErrorCode::kInvalidArgument,
                      "systemd needs the absolute path of the program, not '{}'", options.program);
  }
  std::vector<std::string> words;
  for (const std::string& word : words_of(options)) words.push_back(systemd_word(word));
  return fmt::format(
      "# /etc/systemd/system/tessera-agent@.service: what follows the @ is the first core of the\n"
      "# agent: systemctl enable --now tessera-agent@0 tessera-agent@{0}\n"
      "[Unit]\n"
      "Description=Tessera agent on the cores from %i\n"
      "Wants=network-online.target\n"
      "After=network-online.target\n"
      "\n"
      "[Service]\n"
      "DynamicUser=yes\n"
      "ExecStart=/bin/sh -c 'exec taskset -c \"$$0-$$(($$0 + {1}))\" \"$$@\"' %i {2}\n"
      "Restart=on-failure\n"
      "RestartSec=10\n"
      "TimeoutStopSec={3}\n"
      "SuccessExitStatus=143\n"
      "\n"
      "[Install]\n"
      "WantedBy=multi-user.target\n",
      options.threads, options.threads - 1, fmt::join(words, " "), kGraceSeconds);
}

Result<std::string> slurm_script(const LaunchOptions& options) {
  TESSERA_DO(check(options));
  std::vector<std::string> words;
  for (const std::string& word : words_of(options)) words.push_back(shell_word(word));
  return fmt::format(
      "#!/bin/sh\n"
      "#SBATCH --job-name=tessera-agent\n"
      "#SBATCH --array=0-{}\n"
      "#SBATCH --ntasks=1\n"
      "#SBATCH --cpus-per-task={}\n"
      "#SBATCH --hint=nomultithread\n"
      "#SBATCH --requeue\n"
      "#SBATCH --signal=TERM@{}\n"
      "exec srun --cpu-bind=cores {}\n",
      options.count - 1, options.threads, kGraceSeconds, fmt::join(words, " "));
}

Result<std::string> kubernetes_manifest(const LaunchOptions& options) {
  TESSERA_DO(check(options));
  if (options.image.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no image: give one that has tessera, --image");
  }
  // Whole processors, guaranteed: the kubelet can give the container cores of its own.
  const Json resources = {{"cpu", std::to_string(options.threads)}, {"memory", "4Gi"}};
  std::vector<std::string> words = words_of(options);
  for (std::string& word : words) {
    // "$(" begins the name of a variable there.
    for (std::size_t at = 0; (at = word.find("$(", at)) != std::string::npos; at += 3)
      word.insert(at, "$");
  }
  // libpq reads no file that others may read. Where there is no such secret, none is needed.
  const auto list_of = [](Json one) { return Json(std::vector<Json>{std::move(one)}); };
  const Json passwords = {
      {"name", kPasswords},
      {"secret", {{"secretName", kPasswords}, {"defaultMode", 0400}, {"optional", true}}}};
  const Json mount = {{"name", kPasswords}, {"mountPath", kPasswordFolder}, {"readOnly", true}};
  const Json file = {{"name", "PGPASSFILE"}, {"value", std::string(kPasswordFolder) + "/pgpass"}};
  const Json container = {{"name", "agent"},
                          {"image", options.image},
                          {"command", Json(words)},
                          {"env", list_of(file)},
                          {"volumeMounts", list_of(mount)},
                          {"resources", {{"requests", resources}, {"limits", resources}}}};
  const Json pod = {{"restartPolicy", "OnFailure"},
                    {"terminationGracePeriodSeconds", kGraceSeconds},
                    {"volumes", list_of(passwords)},
                    {"containers", list_of(container)}};
  const Json job = {{"apiVersion", "batch/v1"},
                    {"kind", "Job"},
                    {"metadata", {{"name", "tessera-agents"}}},
                    {"spec",
                     {{"parallelism", options.count},
                      {"completions", options.count},
                      {"template", {{"spec", pod}}}}}};
  return job.dump(2) + "\n";
}

}  // namespace tessera::fleet
