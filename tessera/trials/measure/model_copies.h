// Other copies of a model that run while candidates are timed in place, as on a server.
#pragma once

#include <memory>
#include <vector>

#include <sys/types.h>

#include "tessera/trials/measure/model_stand.h"
#include "tessera/trials/measure/wire.h"

namespace tessera::measure {

// Each in a process of its own, run after run, until this object is gone.
class ModelCopies {
 public:
  // With so many threads each, where the system likes. The caller must have one thread.
  // kUnavailable: a process cannot be had.
  static Result<std::unique_ptr<ModelCopies>> start(std::shared_ptr<const PlacedModel> model,
                                                    int copies, int threads);
  ~ModelCopies();
  ModelCopies(const ModelCopies&) = delete;
  ModelCopies& operator=(const ModelCopies&) = delete;

  // Runs that all of them together have ended.
  std::int64_t runs();
  // Copies that run no more, though nobody stopped them.
  int ended() const;

 private:
  struct Copy {
    pid_t pid = 0;
    Channel channel;
  };
  explicit ModelCopies(volatile std::int64_t* runs) : runs_(runs) {}

  std::vector<Copy> copies_;
  volatile std::int64_t* runs_;  // by copy, in memory that is shared with them
};

}  // namespace tessera::measure
