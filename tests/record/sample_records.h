// Records for tests: all fields differ from their defaults.
#pragma once

#include <string>

#include "tessera/support/hash.h"
#include "tessera/trials/record/record.h"

namespace tessera::record {

inline Record sample_record(int n, const std::string& task = "00000000000000aa") {
  Record r;
  r.session = 1;
  r.task = task;
  r.target = "neoverse-v1 threads=2";
  r.threads = 2;
  r.candidate = "reasoned: C.rows=" + std::to_string(n);
  r.schedule = "split C i " + std::to_string(n) + "\nannotate C i.1 vectorize\n";
  r.schedule_digest = to_hex(hash_bytes(r.schedule));
  r.outcome = "ok";
  r.samples_s = {1e-3 * n, 1.1e-3 * n, 1.0 / 3};
  r.seconds = 1.1e-3 * n;
  r.default_s = 2e-3;
  r.calibration_s = 1e-4;
  r.memory_s = 3e-4;
  r.build_ms = 12.5;
  r.quiet = true;
  r.cold = true;
  r.evicted_bytes = 4096;
  r.unchecked = true;
  r.policy = "evolutionary";
  r.seed = 0xfedcba9876543210u;
  r.trial = n;
  r.unix_time = 1'700'000'000 + n;
  return r;
}

inline Record failed_record(int n, const std::string& outcome, const std::string& reason) {
  Record r = sample_record(n);
  r.outcome = outcome;
  r.reason = reason;
  r.samples_s.clear();
  r.seconds = 0;
  return r;
}

}  // namespace tessera::record
