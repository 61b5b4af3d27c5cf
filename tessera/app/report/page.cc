#include "tessera/app/report/page.h"

#include <fmt/format.h>

#include "tessera/app/report/sections.h"

namespace tessera::report {

std::string to_html(const Report& report, const std::optional<Ceilings>& ceilings) {
  const std::string model = report.sessions.empty() ? "" : report.sessions.back().model;
  Html page(fmt::format("Tuning of {}", model.empty() ? "a model" : model));
  add_outcome(report, &page);
  add_progress(report, &page);
  add_gains(report, &page);
  add_kernels(report, ceilings, &page);
  add_schedules(report, &page);
  add_plans(report, &page);
  add_failures(report, &page);
  add_machine(report, ceilings, &page);
  add_sessions(report, &page);
  return page.finish();
}

}  // namespace tessera::report
