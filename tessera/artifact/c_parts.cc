#include "tessera/artifact/c_parts.h"

#include <algorithm>
#include <cctype>

#include <fmt/ranges.h>

#include "tessera/artifact/c_source.h"
#include "tessera/artifact/runtime/program.h"
#include "tessera/artifact/runtime_sources.h"
#include "tessera/support/check.h"

namespace tessera::artifact {
namespace {

using exec::Place;
using exec::Storage;

// Without what the text in front of it already gives.
std::string without_own_includes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::string_view line = text.substr(0, end + 1);
    if (!line.starts_with("#include \"")) out += line;
    text.remove_prefix(line.size());
  }
  return out;
}

std::string tensor_table(const char* symbol, const std::vector<TensorDescription>& tensors) {
  std::string shapes;
  std::string rows;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorDescription& t = tensors[i];
    shapes += fmt::format("static const int64_t {}_shape{}[] = {{{}}};\n", symbol, i,
                          t.shape.empty() ? "0" : fmt::format("{}", fmt::join(t.shape, ", ")));
    rows += fmt::format("    {{{}, \"{}\", {}, {}, {}, {}_shape{}, {}}},\n", c_string(t.name),
                        to_text(t.dtype), dl_code(t.dtype), 8 * size_bytes(t.dtype), t.shape.size(),
                        symbol, i, t.bytes());
  }
  if (rows.empty()) rows = "    {\"\", \"\", 0, 0, 0, 0, 0},\n";
  return fmt::format("{}static const tsr_tensor_info {}[] = {{\n{}}};\n\n", shapes, symbol, rows);
}

int place_kind(Place place) {
  switch (place) {
    case Place::kNone:
      return TSR_PLACE_NONE;
    case Place::kInput:
      return TSR_PLACE_INPUT;
    case Place::kOutput:
      return TSR_PLACE_OUTPUT;
    case Place::kConstant:
      return TSR_PLACE_WEIGHTS;
    case Place::kArena:
      return TSR_PLACE_ARENA;
  }
  return TSR_PLACE_NONE;
}

std::string info_table(const Metadata& m) {
  return fmt::format(
      "__attribute__((section(\".tessera\"), used)) static const char tsr_metadata[] =\n    {};\n\n"
      "static const tsr_model_info tsr_info = {{\n"
      "    TSR_ARTIFACT_ABI, {}, {}, {}, {}, {}, {},\n"
      "    {}, {}, {}, {}, {},\n"
      "    {}, {}, {}, {}, {}, tsr_inputs, tsr_outputs, tsr_metadata}};\n\n",
      c_string(to_json(m)), c_string(m.name), c_string(m.tessera_version), c_string(m.target),
      c_string(m.triple), c_string(fmt::format("{}", fmt::join(m.features, ","))),
      device_type(m.device), c_string(m.model_digest), c_string(m.plan_digest),
      c_string(m.weights_digest), m.weights_bytes, m.weights_file.empty() ? 1 : 0, m.arena_bytes,
      m.shared_bytes, m.worker_bytes, m.inputs.size(), m.outputs.size());
}

}  // namespace

// Octal escapes end after three digits, whatever follows; '?' could begin a
// trigraph.
std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n\"\n    \"";
    } else if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\' || c == '?') {
      out += fmt::format("\\{:03o}", byte);
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::string commented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("_.:,+-=[] ").find(c) != std::string_view::npos;
    out.push_back(plain ? c : '_');
  }
  return out;
}

int dl_code(DType t) {
  if (t == DType::kBool) return 6;
  if (t == DType::kBF16) return 4;
  if (is_float(t)) return 2;
  return is_signed_int(t) ? 0 : 1;
}

int device_type(target::Kind kind) {
  if (kind == target::Kind::kCuda) return TSR_DL_CUDA;
  return kind == target::Kind::kOpenCl ? TSR_DL_OPENCL : TSR_DL_CPU;
}

std::vector<std::string_view> runtime_files(target::Kind kind) {
  std::vector<std::string_view> files = {"program.h", "digest.c", "status.c", "weights.c",
                                         "tensors.c"};
  const auto add = [&](std::initializer_list<std::string_view> more) {
    files.insert(files.end(), more);
  };
  switch (kind) {
    case target::Kind::kCpu:
      add({"processors.h", "processors.c", "fork_join.h", "fork_join.c", "cpu_check.c",
           "context.c"});
      break;
    case target::Kind::kCuda:
      add({"device.h", "cuda.c", "device_context.c"});
      break;
    case target::Kind::kOpenCl:
      add({"device.h", "opencl.c", "device_context.c"});
      break;
  }
  return files;
}

std::string runtime_text(const std::vector<std::string_view>& files) {
  std::string out;
  for (const std::string_view name : files) {
    const auto& all = runtime_sources();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const RuntimeSource& s) { return s.name == name; });
    TESSERA_CHECK(found != all.end(), "{} is not embedded", name);
    out += without_own_includes(found->text) + "\n";
  }
  return out;
}

tsr_place place_of(const Storage& storage, const exec::CompiledModel& model,
                   const Weights& weights) {
  tsr_place place = {place_kind(storage.place), 0, storage.offset, storage.bytes};
  if (storage.place == Place::kInput || storage.place == Place::kOutput) {
    place.index = static_cast<std::int32_t>(storage.index);
  }
  if (storage.place == Place::kConstant) {
    place.offset = static_cast<std::int64_t>(weights.offsets[storage.index]);
    place.bytes = static_cast<std::int64_t>(model.constants[storage.index].bytes());
  }
  return place;
}

std::string place_text(const tsr_place& p) {
  return fmt::format("{{{}, {}, {}, {}}}", p.kind, p.index, p.offset, p.bytes);
}

std::string source_begin(const Metadata& m, const Weights& weights) {
  std::string out = fmt::format(
      "/* Tables and runtime of model {}. Generated by Tessera {}: do not edit. */\n"
      "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n#include \"{}.h\"\n\n",
      commented(m.name), m.tessera_version, m.name);
  out += runtime_text(runtime_files(m.device));
  if (m.weights_file.empty() && weights.bytes > 0) {
    out +=
        fmt::format("extern const unsigned char {}[] __attribute__((visibility(\"hidden\")));\n\n",
                    weights_symbol(m.name));
  }
  return out + tensor_table("tsr_inputs", m.inputs) + tensor_table("tsr_outputs", m.outputs) +
         info_table(m);
}

std::vector<tsr_copy> copies_of(const exec::CompiledModel& model, const Weights& weights) {
  std::vector<tsr_copy> out;
  for (const exec::CompiledModel::Copy& copy : model.copies) {
    out.push_back({place_of(copy.from, model, weights), static_cast<std::int32_t>(copy.output)});
  }
  return out;
}

std::string copies_table(const exec::CompiledModel& model, const Weights& weights) {
  std::string rows;
  for (const tsr_copy& copy : copies_of(model, weights)) {
    rows += fmt::format("    {{{}, {}}},\n", place_text(copy.from), copy.output);
  }
  // A table of C has at least one row; the counts say how many are used.
  if (rows.empty()) rows = "    {{0, 0, 0, 0}, 0},\n";
  return fmt::format("static const tsr_copy tsr_copies[] = {{\n{}}};\n\n", rows);
}

std::string common_row(const Metadata& m, const exec::CompiledModel& model,
                       const Weights& weights) {
  const bool embedded = m.weights_file.empty() && weights.bytes > 0;
  return fmt::format("{{&tsr_info, {}, UINT64_C({}), tsr_copies, {}}}",
                     embedded ? weights_symbol(m.name) : "0", weights.digest, model.copies.size());
}

std::string entry_points(const std::string& name) {
  return fmt::format(R"(
#define TSR_EXPORT __attribute__((visibility("default")))

TSR_EXPORT const tsr_model_info* {0}_info(void) {{ return &tsr_info; }}

TSR_EXPORT tsr_status {0}_open(const tsr_open_options* options, tsr_context** context) {{
  return tsr_open(&tsr_the_program, options, context);
}}

TSR_EXPORT int64_t {0}_memory_bytes(const tsr_context* context) {{
  return tsr_memory_bytes(context);
}}

TSR_EXPORT tsr_status {0}_run(tsr_context* context, const void* const* inputs,
                              void* const* outputs, void* memory) {{
  return tsr_run(context, inputs, outputs, memory);
}}

TSR_EXPORT tsr_status {0}_run_tensors(tsr_context* context, const tsr_dl_tensor* inputs,
                                      const tsr_dl_tensor* outputs, void* stream) {{
  return tsr_run_tensors(context, inputs, outputs, stream);
}}

TSR_EXPORT void {0}_close(tsr_context* context) {{ tsr_close(context); }}

static const tsr_model_api tsr_table = {{TSR_ARTIFACT_ABI, &tsr_info,   {0}_open,
                                        {0}_memory_bytes, {0}_run, {0}_close,
                                        {0}_run_tensors}};

TSR_EXPORT const tsr_model_api* {0}_api(void) {{ return &tsr_table; }}
)",
                     name);
}

}  // namespace tessera::artifact
