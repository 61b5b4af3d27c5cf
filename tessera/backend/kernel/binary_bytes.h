// A binary as bytes that the same build of the program reads again.
#pragma once

#include "tessera/machine/runtime/device/binary.h"
#include "tessera/support/byte_stream.h"

namespace tessera::kernel {

void write_binary(ByteWriter& writer, const runtime::Binary& binary);
// Made for `target`, which is not among the bytes. reader.ok() says whether it is whole.
void read_binary(ByteReader& reader, const target::Target& target, runtime::Binary* binary);

}  // namespace tessera::kernel
