#include "tessera/artifact/c_source.h"

#include <algorithm>
#include <cctype>

#include <fmt/ranges.h>

#include "tessera/artifact/runtime/program.h"
#include "tessera/artifact/runtime_sources.h"
#include "tessera/support/check.h"

namespace tessera::artifact {
namespace {

using exec::Place;
using exec::Storage;

std::string upper(const std::string& name) {
  std::string out = name;
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

// A C string literal. Octal escapes end after three digits, whatever follows; '?' could begin a
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

// For comments: nothing that could end them.
std::string commented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("_.:,+-=[] ").find(c) != std::string_view::npos;
    out.push_back(plain ? c : '_');
  }
  return out;
}

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

bool is_header_part(std::string_view name) { return name == "abi.h" || name == "types.h"; }

std::string runtime_text(bool header) {
  std::string out;
  for (const RuntimeSource& source : runtime_sources()) {
    if (is_header_part(source.name) == header) out += without_own_includes(source.text) + "\n";
  }
  return out;
}

// DLPack's numbers: DLDataTypeCode.
int dl_code(DType t) {
  if (t == DType::kBool) return 6;
  if (t == DType::kBF16) return 4;
  if (is_float(t)) return 2;
  return is_signed_int(t) ? 0 : 1;
}

std::string interface_text(const std::string& name) {
  return fmt::format(R"(
/* Readable without opening. */
const tsr_model_info* {0}_info(void);

/* options: NULL for one thread a core and embedded weights. TSR_UNSUPPORTED: the processor
 * lacks a feature, which the message names. */
tsr_status {0}_open(const tsr_open_options* options, tsr_context** context);

/* Bytes that a run needs between inputs and outputs, with the context's number of workers. */
int64_t {0}_memory_bytes(const tsr_context* context);

/* inputs, outputs: one pointer per tensor, in the order of the info; outputs overlap nothing. Tensors
 * at multiples of 64 bytes are used in place, others are copied. memory: {0}_memory_bytes at a
 * multiple of 64 bytes, or NULL for memory that the context owns. One run of a context at a time;
 * different contexts may run at the same time. */
tsr_status {0}_run(tsr_context* context, const void* const* inputs, void* const* outputs,
                   void* memory);

void {0}_close(tsr_context* context);

/* All of the above as a table. */
const tsr_model_api* {0}_api(void);
)",
                     name);
}

std::string tensor_macros(const std::string& name, const char* kind,
                          const std::vector<TensorDescription>& tensors) {
  std::string out = fmt::format("#define {}_NUM_{}S {}\n", upper(name), kind, tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out += fmt::format("#define {}_{}_{}_BYTES {} /* {}: {} {} */\n", upper(name), kind, i,
                       tensors[i].bytes(), commented(tensors[i].name), to_text(tensors[i].dtype),
                       to_text(tensors[i].shape));
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

std::string place_text(const Storage& storage, const Weights& weights) {
  const bool constant = storage.place == Place::kConstant;
  const bool indexed = storage.place == Place::kInput || storage.place == Place::kOutput;
  const std::int64_t offset =
      constant ? static_cast<std::int64_t>(weights.offsets[storage.index]) : storage.offset;
  return fmt::format("{{{}, {}, {}}}", place_kind(storage.place), indexed ? storage.index : 0,
                     offset);
}

std::string kernel_declarations(const std::string& name, const exec::CompiledModel& model) {
  std::vector<std::size_t> tasks;
  for (const auto& step : model.steps) tasks.push_back(step.kernel);
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  std::string out;
  for (const std::size_t task : tasks) {
    out += fmt::format(
        "extern int32_t {}(void* const*, void*, tsr_host*) "
        "__attribute__((visibility(\"hidden\")));\n",
        kernel_symbol(name, task));
  }
  return out + "\n";
}

std::string program_tables(const std::string& name, const exec::CompiledModel& model,
                           const Weights& weights) {
  std::string places, steps, copies;
  std::size_t count = 0;
  for (const exec::CompiledModel::Step& step : model.steps) {
    TESSERA_CHECK(step.kind == task::GroupKind::kKernel, "{} is not a kernel", step.name);
    for (const Storage& s : step.params) places += "    " + place_text(s, weights) + ",\n";
    steps += fmt::format("    {{{}, {}, {}, {}}},\n", kernel_symbol(name, step.kernel), count,
                         step.params.size(), c_string(step.name));
    count += step.params.size();
  }
  for (const exec::CompiledModel::Copy& copy : model.copies) {
    copies += fmt::format("    {{{}, {}}},\n", place_text(copy.from, weights), copy.output);
  }
  // A table of C has at least one row; the counts say how many are used.
  if (places.empty()) places = "    {0, 0, 0},\n";
  if (steps.empty()) steps = "    {0, 0, 0, 0},\n";
  if (copies.empty()) copies = "    {{0, 0, 0}, 0},\n";
  return fmt::format(
      "static const tsr_place tsr_places[] = {{\n{}}};\n\n"
      "static const tsr_step tsr_steps[] = {{\n{}}};\n\n"
      "static const tsr_copy tsr_copies[] = {{\n{}}};\n\n",
      places, steps, copies);
}

std::string info_table(const Metadata& m) {
  std::string features;
  for (const std::string& feature : m.features) features += c_string(feature) + ", ";
  return fmt::format(
      "__attribute__((section(\".tessera\"), used)) static const char tsr_metadata[] =\n    {};\n\n"
      "static const char* const tsr_required_features[] = {{{}0}};\n\n"
      "static const tsr_model_info tsr_info = {{\n"
      "    TSR_ARTIFACT_ABI, {}, {}, {}, {}, {},\n"
      "    {}, {}, {}, {}, {},\n"
      "    {}, {}, {}, {}, {}, tsr_inputs, tsr_outputs, tsr_metadata}};\n\n",
      c_string(to_json(m)), features, c_string(m.name), c_string(m.tessera_version),
      c_string(m.target), c_string(m.triple),
      c_string(fmt::format("{}", fmt::join(m.features, ","))), c_string(m.model_digest),
      c_string(m.plan_digest), c_string(m.weights_digest), m.weights_bytes,
      m.weights_file.empty() ? 1 : 0, m.arena_bytes, m.shared_bytes, m.worker_bytes,
      m.inputs.size(), m.outputs.size());
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

TSR_EXPORT void {0}_close(tsr_context* context) {{ tsr_close(context); }}

static const tsr_model_api tsr_table = {{TSR_ARTIFACT_ABI, &tsr_info,   {0}_open,
                                        {0}_memory_bytes, {0}_run, {0}_close}};

TSR_EXPORT const tsr_model_api* {0}_api(void) {{ return &tsr_table; }}
)",
                     name);
}

}  // namespace

std::string kernel_symbol(const std::string& name, std::size_t task) {
  return fmt::format("{}_kernel{}", name, task);
}

std::string weights_symbol(const std::string& name) { return name + "_weights"; }

std::string identifier(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out.push_back(std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_');
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0) out = "model_" + out;
  return out.substr(0, 100);
}

std::string header_text(const Metadata& m) {
  std::string out =
      fmt::format("/* Model {}, compiled by Tessera {} for {}. Generated: do not edit. */\n",
                  commented(m.name), m.tessera_version, commented(m.triple));
  out += runtime_text(/*header=*/true);
  const std::string guard = fmt::format("TESSERA_MODEL_{}_H_", upper(m.name));
  out += fmt::format("#ifndef {0}\n#define {0}\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
                     guard);
  out += tensor_macros(m.name, "INPUT", m.inputs) + tensor_macros(m.name, "OUTPUT", m.outputs);
  out += fmt::format(
      "/* Memory of a run with `workers` threads. */\n"
      "#define {}_MEMORY_BYTES(workers) ((int64_t){} + (int64_t)(workers) * {})\n",
      upper(m.name), m.arena_bytes + m.shared_bytes, m.worker_bytes);
  out += interface_text(m.name);
  out += "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return out;
}

std::string source_text(const Metadata& m, const exec::CompiledModel& model,
                        const Weights& weights) {
  const bool embedded = m.weights_file.empty() && weights.bytes > 0;
  std::size_t most = 0;
  for (const auto& step : model.steps) most = std::max(most, step.params.size());
  std::string out = fmt::format(
      "/* Tables and runtime of model {}. Generated by Tessera {}: do not edit. */\n"
      "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n#include \"{}.h\"\n\n",
      commented(m.name), m.tessera_version, m.name);
  out += runtime_text(/*header=*/false);
  out += kernel_declarations(m.name, model);
  if (embedded) {
    out +=
        fmt::format("extern const unsigned char {}[] __attribute__((visibility(\"hidden\")));\n\n",
                    weights_symbol(m.name));
  }
  out += tensor_table("tsr_inputs", m.inputs) + tensor_table("tsr_outputs", m.outputs);
  out += info_table(m) + program_tables(m.name, model, weights);
  out += fmt::format(
      "static const tsr_program tsr_the_program = {{\n"
      "    &tsr_info, tsr_required_features, tsr_steps, {}, tsr_places, tsr_copies, {}, {}, {},\n"
      "    UINT64_C({})}};\n",
      model.steps.size(), model.copies.size(), most, embedded ? weights_symbol(m.name) : "0",
      weights.digest);
  out += entry_points(m.name);
  return out;
}

std::string weights_assembly(const std::string& name) {
  return fmt::format(
      "    .section .rodata.{0},\"a\",%progbits\n"
      "    .globl {0}\n    .hidden {0}\n    .type {0}, %object\n    .balign 64\n{0}:\n"
      "    .incbin \"weights.bin\"\n    .size {0}, . - {0}\n"
      "    .section .note.GNU-stack,\"\",%progbits\n",
      weights_symbol(name));
}

}  // namespace tessera::artifact
