// The sections of the page, in its order.
#pragma once

#include <optional>
#include <string>

#include "tessera/app/report/ceilings.h"
#include "tessera/app/report/collect.h"
#include "tessera/app/report/html.h"

namespace tessera::report {

void add_outcome(const Report& report, Html* page);
void add_progress(const Report& report, Html* page);
void add_gains(const Report& report, Html* page);
void add_kernels(const Report& report, const std::optional<Ceilings>& ceilings, Html* page);
void add_schedules(const Report& report, Html* page);
void add_plans(const Report& report, Html* page);  // nothing where there are none
void add_failures(const Report& report, Html* page);
void add_machine(const Report& report, const std::optional<Ceilings>& ceilings, Html* page);
void add_sessions(const Report& report, Html* page);

// Of charts: on a phone their text stays legible without scrolling.
inline constexpr double kChartWidth = 520;

std::string duration_text(double seconds);  // "12.3 ms"; "-" for none
std::string date_text(std::int64_t unix_time);
// "3.21x"; "-" where one is not known.
std::string gain_text(double before_s, double after_s);

// A unit in which a time has few digits.
struct TimeUnit {
  const char* name = "s";
  double per_second = 1;
};
TimeUnit unit_of(double seconds);

}  // namespace tessera::report
