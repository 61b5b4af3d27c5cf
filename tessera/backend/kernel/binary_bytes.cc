#include "tessera/backend/kernel/binary_bytes.h"

namespace tessera::kernel {

void write_binary(ByteWriter& writer, const runtime::Binary& binary) {
  writer.number(static_cast<std::int64_t>(binary.kind));
  writer.number(static_cast<std::int64_t>(binary.kernels.size()));
  for (const runtime::KernelInfo& k : binary.kernels) {
    writer.text(k.name);
    writer.number(k.shared_bytes);
    writer.number(k.worker_bytes);
  }
  writer.number(static_cast<std::int64_t>(binary.launches.size()));
  for (const runtime::LaunchInfo& l : binary.launches) {
    writer.text(l.name);
    for (const auto* sizes : {&l.grid, &l.block}) {
      for (const std::int64_t n : *sizes) writer.number(n);
    }
    writer.number(l.shared_bytes);
    writer.number(l.waits ? 1 : 0);
    writer.number(static_cast<std::int64_t>(l.arguments.size()));
    for (const int a : l.arguments) writer.number(a);
  }
  writer.number(static_cast<std::int64_t>(binary.temporaries.size()));
  for (const std::int64_t t : binary.temporaries) writer.number(t);
  writer.number(binary.parameters);
  writer.text({reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()});
}

void read_binary(ByteReader& reader, const target::Target& target, runtime::Binary* binary) {
  binary->kind = static_cast<runtime::BinaryKind>(reader.number());
  for (std::int64_t n = reader.number(); n > 0 && reader.ok(); --n) {
    runtime::KernelInfo k;
    k.name = reader.text();
    k.shared_bytes = reader.number();
    k.worker_bytes = reader.number();
    binary->kernels.push_back(std::move(k));
  }
  for (std::int64_t n = reader.number(); n > 0 && reader.ok(); --n) {
    runtime::LaunchInfo l;
    l.name = reader.text();
    for (auto* sizes : {&l.grid, &l.block}) {
      for (std::int64_t& size : *sizes) size = reader.number();
    }
    l.shared_bytes = reader.number();
    l.waits = reader.number() != 0;
    for (std::int64_t a = reader.number(); a > 0 && reader.ok(); --a)
      l.arguments.push_back(static_cast<int>(reader.number()));
    binary->launches.push_back(std::move(l));
  }
  for (std::int64_t n = reader.number(); n > 0 && reader.ok(); --n)
    binary->temporaries.push_back(reader.number());
  binary->parameters = static_cast<int>(reader.number());
  const std::string_view code = reader.text();
  binary->bytes.assign(code.begin(), code.end());
  binary->target = target;
}

}  // namespace tessera::kernel
