#include "tessera/artifact/device_source.h"

#include <fmt/ranges.h>

#include "tessera/artifact/c_parts.h"

namespace tessera::artifact {
namespace {

// A table of C has at least one row; the counts say how many are used.
template <class Row, class Print>
std::string table(const char* type, const char* name, const std::vector<Row>& rows,
                  const char* none, Print print) {
  std::string text;
  for (const Row& row : rows) text += fmt::format("    {},\n", print(row));
  if (rows.empty()) text = fmt::format("    {},\n", none);
  return fmt::format("static const {} {}[] = {{\n{}}};\n\n", type, name, text);
}

std::string module_text(const tsr_module& m) {
  return fmt::format("{{{}, {}, {}, {}}}", m.text, m.text_bytes, m.binary, m.binary_bytes);
}

std::string launch_text(const tsr_launch& l) {
  return fmt::format("{{{}, {}, {}, {}, {{{}}}, {{{}}}, {}}}", c_string(l.kernel), l.module,
                     l.first_argument, l.num_arguments, fmt::join(l.grid, ", "),
                     fmt::join(l.block, ", "), l.shared_bytes);
}

}  // namespace

std::string code_symbol(const std::string& name) { return name + "_code"; }

std::string device_source_text(const Metadata& m, const exec::CompiledModel& model,
                               const DeviceProgram& program, const Weights& weights) {
  const bool any = !program.modules.empty();
  std::string out = source_begin(m, weights);
  if (any) {
    out +=
        fmt::format("extern const unsigned char {}[] __attribute__((visibility(\"hidden\")));\n\n",
                    code_symbol(m.name));
  }
  out += copies_table(model, weights);
  out += table("tsr_module", "tsr_modules", program.modules, "{0, 0, 0, 0}", module_text);
  out += table("tsr_launch", "tsr_launches", program.launches,
               "{0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}, 0}", launch_text);
  out += table("int32_t", "tsr_arguments", program.arguments, "0",
               [](std::int32_t a) { return std::to_string(a); });
  out += table("tsr_place", "tsr_places", program.places, "{0, 0, 0, 0}", place_text);
  out += fmt::format(
      "static const tsr_device_program tsr_the_program = {{\n"
      "    {},\n    {}, {}, tsr_modules, {}, tsr_launches, {},\n"
      "    tsr_arguments, {}, tsr_places, {}}};\n",
      common_row(m, model, weights), any ? code_symbol(m.name) : "0", program.capability,
      program.modules.size(), program.launches.size(), program.max_arguments,
      program.places.size());
  return out + entry_points(m.name);
}

}  // namespace tessera::artifact
