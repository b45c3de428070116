#include "telemetry/analysis/traced_step.hpp"

#include <algorithm>

namespace troupe::telemetry {

std::string_view name_of(work_sort s) {
  switch (s) {
    case work_sort::loading:
      return "loading";
    case work_sort::compute:
      return "compute";
    case work_sort::communication:
      return "communication";
    case work_sort::update:
      return "update";
    case work_sort::saving:
      return "saving";
    case work_sort::disk:
      return "disk";
    case work_sort::host:
      return "host";
  }
  return "?";
}

step_bounds bounds_of(const traced_step& s) {
  step_bounds out{INT64_MAX, INT64_MIN};
  for (const auto& x : s.spans) {
    out.start_ns = std::min(out.start_ns, x.start_ns);
    if (!x.ends_late) out.end_ns = std::max(out.end_ns, x.end_ns);
  }
  out.end_ns = std::max(out.end_ns, out.start_ns);
  return out;
}

}  // namespace troupe::telemetry
