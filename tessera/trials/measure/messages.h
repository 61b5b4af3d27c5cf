// What the owner, the server and the workers of a measurer tell each other.
#pragma once

#include <string>
#include <vector>

#include "tessera/machine/runtime/device/binary.h"
#include "tessera/trials/measure/measurement.h"
#include "tessera/trials/measure/step_fields.h"
#include "tessera/trials/measure/wire.h"

namespace tessera::measure {

template <class A>
void fields(A& a, Trial& t) {
  a(t.id, t.task, t.steps, t.incumbent_s, t.final, t.in_place, t.together);
}

template <class A>
void fields(A& a, Measurement& m) {
  a(m.id, m.outcome, m.reason, m.samples_s, m.calibration_s, m.build_ms, m.run_ms, m.disturbed,
    m.memory_s, m.default_s);
}

// A trial under a number that the owner gives only once. Jobs of one group (not 0) are timed side
// by side once the `group_size` of them are built.
struct Job {
  std::uint64_t number = 0;
  std::uint64_t group = 0, group_size = 0;
  Trial trial;
  std::size_t task = 0;      // of the trial: index into the tasks of the measurer
  bool cold_caches = false;  // as MeasuredTask says
};
template <class A>
void fields(A& a, Job& j) {
  a(j.number, j.group, j.group_size, j.trial, j.task, j.cold_caches);
}

struct Cancel {
  std::uint64_t before = 0;  // gives up all jobs with a smaller number
};
template <class A>
void fields(A& a, Cancel& c) {
  a(c.before);
}

// How a kernel of a GPU is started, as runtime::LaunchInfo.
template <class A>
void fields(A& a, runtime::LaunchInfo& l) {
  a(l.name, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2], l.shared_bytes,
    l.arguments, l.waits);
}

struct Built {
  std::string error;                 // not empty: nothing below but build_ms
  std::string object;                // of CPUs: relocatable ELF with one kernel; else the program
  std::string symbol;                // of the kernel
  std::int64_t shared_bytes = 0;     // of its workspace
  std::int64_t worker_bytes = 0;     //
  std::vector<std::string> layouts;  // text, per parameter; empty: as the Dag says
  double build_ms = 0;
  bool defect = false;  // the error is one of the compiler, not of the candidate
  // Of programs for GPUs, as in runtime::Binary.
  runtime::BinaryKind kind = runtime::BinaryKind::kObject;
  std::vector<runtime::LaunchInfo> launches;
  std::vector<std::int64_t> temporaries;
};
template <class A>
void fields(A& a, Built& b) {
  a(b.error, b.object, b.symbol, b.shared_bytes, b.worker_bytes, b.layouts, b.build_ms, b.defect);
  a(b.kind, b.launches, b.temporaries);
}

struct RunItem {
  Job job;
  Built built;
};
template <class A>
void fields(A& a, RunItem& i) {
  a(i.job, i.built);
}

struct RunRequest {
  std::vector<RunItem> items;  // more than one: side by side, or in place
  bool side_by_side = false;
  bool in_place = false;  // all of them inside one running model
};
template <class A>
void fields(A& a, RunRequest& r) {
  a(r.items, r.side_by_side, r.in_place);
}

// Shared with the server: the item whose code runs, or that none does.
inline constexpr std::uint32_t kNoItem = 0xffffffff;

struct Calling {
  std::uint64_t item = 0;  // of the RunRequest
};
template <class A>
void fields(A& a, Calling& c) {
  a(c.item);
}

struct RunReply {
  std::vector<Measurement> measurements;  // as the items of the request
  double waiting_share = 0;               // of the timed running, waiting for a core
  bool last = false;                      // the worker ends: nothing runs there any more
  bool damaged = false;  // in place: one of the items changed memory that is not its own
};
template <class A>
void fields(A& a, RunReply& r) {
  a(r.measurements, r.waiting_share, r.last, r.damaged);
}

struct Measured {
  std::uint64_t number = 0;
  Measurement measurement;
  double waiting_share = -1;  // negative: not run
};
template <class A>
void fields(A& a, Measured& m) {
  a(m.number, m.measurement, m.waiting_share);
}

}  // namespace tessera::measure
