#include "tessera/frontend/plan/rules.h"

#include "tessera/machine/target/fast_math.h"
#include "tessera/machine/target/matrix_instructions.h"

namespace tessera::plan {

Rules rules_for(const target::Target& target) {
  Rules rules;
  rules.flops_per_byte = target::flops_per_byte(target);
  // Halves the time of ResNet3D-18 on one core with AVX-512.
  rules.winograd_depth = true;
  // What is rounded is signed, weights are not.
  rules.rounded_products =
      target::find_matrix(target, target::Operands::kLanes, DType::kI8, DType::kU8) != nullptr;
  rules.winograd_windows = rules.winograd_transposed = !target.is_gpu();
  if (target.is_gpu()) {
    // Transforms are kernels of their own. On an H200 they pay from maps of 28 x 28 on, where tiles
    // of 4 take two thirds of the time (7.1 us, direct 10.7, of 56 x 56 with 64 channels).
    rules.winograd_min_size = 28;
    // Its transforms would multiply what tf32 rounds away.
    rules.winograd = target::products_of(target) == Products::kExact;
    // One larger product fills more multiprocessors, and launches are saved.
    rules.merge_contractions = true;
    rules.slices_in_place = true;
    // Operands pass through shared memory anyway, and a launch is saved: SqueezeNet 1.1 of f16
    // takes 57.7 us instead of 63.3 on an H200.
    rules.moves_inside = true;
    // By estimate, not measured: every block reads all keys, which grows with their square.
    rules.attention_keys = 512;
    rules.records_launches = target.kind == target::Kind::kCuda;
    // On an H200, products of fewer multiplications take no longer in f32 than with the parts of
    // their left operand (512 x 512 x 512: 10.0 us, 10.8 in parts; 128 x 768 x 768: 7.5 and 6.9).
    if (target::splits_products(target)) rules.split_products = 1 << 26;
  }
  return rules;
}

}  // namespace tessera::plan
