#include "tessera/backend/artifact/places.h"

namespace tessera::artifact {
namespace {

using exec::Place;
using exec::Storage;

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

}  // namespace

int dl_code(DType t) {
  if (t == DType::kBool) return 6;
  if (t == DType::kBF16) return 4;
  if (t == DType::kF8E4M3) return 10;
  if (t == DType::kF8E5M2) return 12;
  if (is_float(t)) return 2;
  return is_signed_int(t) ? 0 : 1;
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

std::vector<tsr_copy> copies_of(const exec::CompiledModel& model, const Weights& weights) {
  std::vector<tsr_copy> out;
  for (const exec::CompiledModel::Copy& copy : model.copies) {
    out.push_back({place_of(copy.from, model, weights), static_cast<std::int32_t>(copy.output)});
  }
  return out;
}

}  // namespace tessera::artifact
