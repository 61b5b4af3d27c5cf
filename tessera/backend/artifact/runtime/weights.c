/* The constants of a model: inside the library, or in a file that is mapped. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tessera/backend/artifact/runtime/digest.c"
#include "tessera/backend/artifact/runtime/program.h"
#include "tessera/backend/artifact/runtime/status.c"

/* Zero everywhere: none. */
typedef struct tsr_weights {
  const unsigned char* bytes;
  void* mapping; /* of the weights file, or NULL */
} tsr_weights;

static tsr_status tsr_map_weights(const tsr_model_info* info, const char* path,
                                  tsr_weights* weights) {
  void* mapping;
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return tsr_fail(TSR_IO, "cannot read %s: %s", path, strerror(errno));
  if ((int64_t)lseek(descriptor, 0, SEEK_END) != info->weights_bytes) {
    close(descriptor);
    return tsr_fail(TSR_INVALID_ARGUMENT,
                    "%s is not the weights file of %s: it must have %lld bytes", path, info->name,
                    (long long)info->weights_bytes);
  }
  mapping = mmap(NULL, (size_t)info->weights_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (mapping == MAP_FAILED) return tsr_fail(TSR_IO, "cannot map %s: %s", path, strerror(errno));
  weights->mapping = mapping;
  weights->bytes = (const unsigned char*)mapping;
  return tsr_ok();
}

static tsr_status tsr_find_weights(const tsr_common* program, const tsr_open_options* options,
                                   tsr_weights* weights) {
  const tsr_model_info* info = program->info;
  if (program->embedded || info->weights_bytes == 0) {
    if (options->weights || options->weights_path) {
      return tsr_fail(TSR_INVALID_ARGUMENT, "%s takes no weights: they are in the library",
                      info->name);
    }
    weights->bytes = program->embedded;
    return tsr_ok();
  }
  if (options->weights) {
    if ((int64_t)options->weights_bytes != info->weights_bytes || !tsr_aligned(options->weights)) {
      return tsr_fail(TSR_INVALID_ARGUMENT,
                      "the weights of %s must be %lld bytes at a multiple of 64", info->name,
                      (long long)info->weights_bytes);
    }
    weights->bytes = (const unsigned char*)options->weights;
  } else if (options->weights_path) {
    const tsr_status mapped = tsr_map_weights(info, options->weights_path, weights);
    if (mapped.code != TSR_OK) return mapped;
  } else {
    return tsr_fail(TSR_INVALID_ARGUMENT,
                    "%s has its weights in a file: give weights_path or weights", info->name);
  }
  if (!options->trust_weights &&
      tsr_digest(weights->bytes, (uint64_t)info->weights_bytes) != program->weights_digest) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "%s: the weights are damaged or of another build",
                    info->name);
  }
  return tsr_ok();
}

static void tsr_release_weights(const tsr_common* program, tsr_weights* weights) {
  if (weights->mapping) munmap(weights->mapping, (size_t)program->info->weights_bytes);
  weights->mapping = NULL;
  weights->bytes = NULL;
}
