#include "tessera/backend/artifact/program_tables.h"

#include <cstddef>

#include <fmt/ranges.h>

#include "tessera/backend/artifact/host_call.h"
#include "tessera/backend/artifact/places.h"
#include "tessera/support/check.h"

namespace tessera::artifact {
namespace {

using Address = ObjectLinker::Address;

template <class T>
Address add_constants(DataImage& image, const std::vector<T>& rows) {
  return image.constants(std::span<const T>(rows));
}

template <class T>
Address add_table(DataImage& image, const std::vector<T>& rows) {
  return image.table(std::span<const T>(rows));
}

template <class T>
Address add_row(DataImage& image, const T& row) {
  return image.table(std::span<const T>(&row, 1));
}

class Tables {
 public:
  Tables(const TableParts& parts, DataImage* image, ObjectLinker* linker)
      : parts_(parts), m_(parts.metadata), image_(*image), linker_(*linker) {}

  // Of processors.
  Address add_program() {
    const exec::CompiledModel& model = parts_.model;
    std::vector<tsr_place> places;
    std::vector<tsr_step> steps;
    std::size_t most = 0;
    for (const exec::CompiledModel::Step& step : model.steps) {
      tsr_step& row = steps.emplace_back(zeroed<tsr_step>());
      row.first_place = static_cast<std::int32_t>(places.size());
      row.num_places = static_cast<std::int32_t>(step.params.size());
      for (const exec::Storage& s : step.params) {
        places.push_back(place_of(s, model, parts_.weights));
      }
      most = std::max(most, step.params.size());
    }
    const Address step_table = add_table(image_, steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const exec::CompiledModel::Step& step = model.steps[i];
      const std::size_t row = i * sizeof(tsr_step);
      if (step.kind == task::GroupKind::kKernel) {
        image_.point(step_table, row + offsetof(tsr_step, kernel),
                     kernel_symbol(parts_.symbols, step.kernel));
      } else {
        image_.point(step_table, row + offsetof(tsr_step, host), add_host_call(step));
      }
      const bool named = step.kind != task::GroupKind::kKernel && !step.origin.empty();
      image_.point(step_table, row + offsetof(tsr_step, name),
                   image_.text(named ? step.origin : step.name));
    }
    auto program = zeroed<tsr_program>();
    set_common(&program.common);
    program.num_steps = static_cast<std::int64_t>(steps.size());
    program.max_places = static_cast<std::int32_t>(most);
    const Address at = add_row(image_, program);
    point_common(at, add_info());
    image_.point(at, offsetof(tsr_program, features), add_features());
    image_.point(at, offsetof(tsr_program, steps), step_table);
    image_.point(at, offsetof(tsr_program, places), add_constants(image_, places));
    return at;
  }

  void add_device_program(const DeviceProgram& p, std::optional<Address> code) {
    const auto count = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
    std::vector<tsr_launch> launches = p.launches;
    for (tsr_launch& l : launches) l.kernel = nullptr;
    const Address launch_table = add_table(image_, launches);
    for (std::size_t i = 0; i < launches.size(); ++i) {
      image_.point(launch_table, i * sizeof(tsr_launch) + offsetof(tsr_launch, kernel),
                   image_.text(p.launches[i].kernel));
    }
    auto program = zeroed<tsr_device_program>();
    set_common(&program.common);
    program.capability = p.capability;
    program.num_modules = count(p.modules);
    program.num_launches = count(p.launches);
    program.max_arguments = p.max_arguments;
    program.num_places = count(p.places);
    const Address at = add_row(image_, program), info = add_info();
    point_common(at, info);
    linker_.define("tsr_the_info", info, sizeof(tsr_model_info));
    if (code) image_.point(at, offsetof(tsr_device_program, code), *code);
    image_.point(at, offsetof(tsr_device_program, modules), add_constants(image_, p.modules));
    image_.point(at, offsetof(tsr_device_program, launches), launch_table);
    image_.point(at, offsetof(tsr_device_program, arguments), add_constants(image_, p.arguments));
    image_.point(at, offsetof(tsr_device_program, places), add_constants(image_, p.places));
    if (!p.after.empty())
      image_.point(at, offsetof(tsr_device_program, after), add_constants(image_, p.after));
    linker_.define("tsr_the_program", at, sizeof program);
  }

  Address add_info() {
    auto info = zeroed<tsr_model_info>();
    info.abi = TSR_ARTIFACT_ABI;
    info.device_type = target::row_of(m_.device).dlpack;
    info.weights_bytes = m_.weights_bytes;
    info.weights_embedded = m_.weights_file.empty() ? 1 : 0;
    info.arena_bytes = m_.arena_bytes;
    info.shared_bytes = m_.shared_bytes;
    info.worker_bytes = m_.worker_bytes;
    info.num_inputs = static_cast<std::int32_t>(m_.inputs.size());
    info.num_outputs = static_cast<std::int32_t>(m_.outputs.size());
    const Address at = add_row(image_, info);
    const auto text = [&](std::size_t offset, const std::string& value) {
      image_.point(at, offset, image_.text(value));
    };
    text(offsetof(tsr_model_info, name), m_.name);
    text(offsetof(tsr_model_info, tessera_version), m_.tessera_version);
    text(offsetof(tsr_model_info, target), m_.target);
    text(offsetof(tsr_model_info, triple), m_.triple);
    text(offsetof(tsr_model_info, features), fmt::format("{}", fmt::join(m_.features, ",")));
    text(offsetof(tsr_model_info, model_digest), m_.model_digest);
    text(offsetof(tsr_model_info, plan_digest), m_.plan_digest);
    text(offsetof(tsr_model_info, weights_digest), m_.weights_digest);
    image_.point(at, offsetof(tsr_model_info, inputs), add_tensors(m_.inputs));
    image_.point(at, offsetof(tsr_model_info, outputs), add_tensors(m_.outputs));
    image_.point(at, offsetof(tsr_model_info, json), parts_.json);
    return at;
  }

 private:
  Address add_host_call(const exec::CompiledModel::Step& step) {
    const Result<HostCall> call = host_call(step);
    TESSERA_CHECK(call.ok(), "{} is neither kernel nor function", step.name);
    auto row = zeroed<tsr_host_call>();
    row.function = call->function;
    const Address at = add_row(image_, row);
    image_.point(at, offsetof(tsr_host_call, operands), add_tensors(call->operands));
    image_.point(at, offsetof(tsr_host_call, integers), add_constants(image_, call->integers));
    return at;
  }

  // What stands at the start of both programs, without its addresses.
  void set_common(tsr_common* common) const {
    common->weights_digest = parts_.weights.digest;
    common->num_copies = static_cast<std::int64_t>(parts_.model.copies.size());
    common->num_index_checks = static_cast<std::int64_t>(parts_.model.index_checks.size());
  }

  void point_common(Address program, Address info) {
    static_assert(offsetof(tsr_program, common) == 0 && offsetof(tsr_device_program, common) == 0);
    image_.point(program, offsetof(tsr_common, info), info);
    if (parts_.embedded) image_.point(program, offsetof(tsr_common, embedded), *parts_.embedded);
    std::vector<tsr_copy> copies;
    for (const tsr_copy& copy : copies_of(parts_.model, parts_.weights)) {
      tsr_copy& row = copies.emplace_back(zeroed<tsr_copy>());
      row.from = copy.from;
      row.output = copy.output;
    }
    image_.point(program, offsetof(tsr_common, copies), add_constants(image_, copies));
    image_.point(program, offsetof(tsr_common, index_checks), add_index_checks());
  }

  Address add_index_checks() {
    const std::vector<exec::IndexCheck>& checks = parts_.model.index_checks;
    std::vector<tsr_index_check> rows;
    for (const exec::IndexCheck& check : checks) {
      tsr_index_check& row = rows.emplace_back(zeroed<tsr_index_check>());
      row.num_sizes = static_cast<std::int64_t>(check.sizes.size());
      row.input = static_cast<std::int32_t>(check.input);
    }
    const Address at = add_table(image_, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t row = i * sizeof(tsr_index_check);
      image_.point(at, row + offsetof(tsr_index_check, node), image_.text(checks[i].node));
      image_.point(at, row + offsetof(tsr_index_check, sizes),
                   add_constants(image_, checks[i].sizes));
    }
    return at;
  }

  // Ends with an empty row.
  Address add_features() {
    const Address at = add_table(image_, std::vector<const char*>(m_.features.size() + 1));
    for (std::size_t i = 0; i < m_.features.size(); ++i) {
      image_.point(at, i * sizeof(const char*), image_.text(m_.features[i]));
    }
    return at;
  }

  Address add_tensors(const std::vector<TensorDescription>& tensors) {
    std::vector<tsr_tensor_info> rows;
    for (const TensorDescription& t : tensors) {
      tsr_tensor_info& row = rows.emplace_back(zeroed<tsr_tensor_info>());
      row.dl_code = dl_code(t.dtype);
      row.dl_bits = 8 * size_bytes(t.dtype);
      row.rank = static_cast<std::int32_t>(t.shape.size());
      row.bytes = t.bytes();
    }
    const Address at = add_table(image_, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t row = i * sizeof(tsr_tensor_info);
      image_.point(at, row + offsetof(tsr_tensor_info, name), image_.text(tensors[i].name));
      image_.point(at, row + offsetof(tsr_tensor_info, dtype),
                   image_.text(to_text(tensors[i].dtype)));
      const std::vector<std::int64_t> shape(tensors[i].shape.begin(), tensors[i].shape.end());
      image_.point(at, row + offsetof(tsr_tensor_info, shape), add_constants(image_, shape));
    }
    return at;
  }

  const TableParts& parts_;
  const Metadata& m_;
  DataImage& image_;
  ObjectLinker& linker_;
};

}  // namespace

std::string kernel_symbol(const std::string& prefix, std::size_t task) {
  return fmt::format("{}_kernel{}", prefix, task);
}

void add_programs(const std::vector<TableParts>& variants, const TableParts& all, DataImage* image,
                  ObjectLinker* linker) {
  std::vector<Address> programs;
  for (const TableParts& parts : variants)
    programs.push_back(Tables(parts, image, linker).add_program());
  for (std::size_t i = 1; i < programs.size(); ++i)
    image->point(programs[i - 1], offsetof(tsr_program, next), programs[i]);
  linker->define("tsr_the_program", programs[0], sizeof(tsr_program));
  linker->define("tsr_the_info", Tables(all, image, linker).add_info(), sizeof(tsr_model_info));
}

void add_device_program(const TableParts& parts, const DeviceProgram& program,
                        std::optional<Address> code, DataImage* image, ObjectLinker* linker) {
  Tables(parts, image, linker).add_device_program(program, code);
}

}  // namespace tessera::artifact
