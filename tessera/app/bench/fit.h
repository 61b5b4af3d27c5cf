// Measures the machine at hand and makes a row of it (`tessera machine fit`).
#pragma once

#include <functional>
#include <string>

#include "tessera/machine/target/machine_row.h"

namespace tessera::app {

struct FitOptions {
  // The rates to measure; empty: all of the machine. The others are the shipped ones.
  std::vector<std::string> rates;
  double seconds_per_rate = 1;  // at most, roughly: fewer rounds on slow or busy machines
  std::function<void(const std::string& what)> progress = [](const std::string&) {};
  // A rate whose measurement other work disturbed by more than kSteady, and by which part.
  std::function<void(std::string_view rate, double part)> disturbed = [](std::string_view, double) {
  };

  bool wants(std::string_view rate) const;
};

// The machine this program runs on, by code for it.
Result<target::MachineRow> fit_host(const FitOptions& options);
// The GPU at hand, by kernels that its own clock times. kUnavailable where there is none.
Result<target::MachineRow> fit_device(target::Kind kind, const FitOptions& options);

// Words for the source of a rate, of which `disturbed` is told, where other work disturbed it; else
// none.
std::string tell_disturbed(const FitOptions& options, std::string_view rate, double part);

// What a row says of a measured number: few digits, and whole ports for instructions, because
// schedules should not follow the noise of a measurement.
double rounded_rate(double value);
double rounded_ports(double value);

}  // namespace tessera::app
