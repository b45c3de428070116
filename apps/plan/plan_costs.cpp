#include "apps/plan/plan_costs.hpp"

#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "apps/base/error_line.hpp"
#include "job/blueprint.hpp"

namespace troupe::apps {

job::machine_identity own_machine() {
  return job::this_machine("troupe " TROUPE_VERSION ", LibTorch " TROUPE_LIBTORCH_VERSION);
}

core::result<std::optional<job::model_of_kept>> kept_costs_of(const config::job_config& c) {
  if (c.device != core::device_kind::cpu) return std::optional<job::model_of_kept>();
  const auto machine = own_machine();
  TROUPE_ASSIGN(const auto kept, job::open_kept_costs(job::kept_costs_file(machine), machine));
  if (!kept) return std::optional<job::model_of_kept>();
  return job::model_by(*kept, c.parameter_dtype(), job::usual_costs(c), c.swap_folder(),
                       static_cast<double>(std::time(nullptr)));
}

chosen_costs costs_by(const std::optional<job::model_of_kept>& kept, const config::job_config& c) {
  if (kept) return {kept->costs, "constants " + kept->source, kept->spread};
  const bool is_cpu = c.device == core::device_kind::cpu;
  return {job::usual_costs(c), is_cpu ? "usual rates of a CPU; troupe calibrate measures this machine's" : "",
          std::nullopt};
}

core::result<chosen_costs> costs_of(const config::job_config& c, const rate_arguments& a,
                                    const job::product_meter& products) {
  chosen_costs out;
  if (a.measure) {
    out.costs = job::measured_costs(c, products, [](const std::string& line) { print_error_line(line); });
    out.source = "rates measured now";
  } else {
    TROUPE_ASSIGN(const auto kept, kept_costs_of(c));
    out = costs_by(kept, c);
  }
  if (a.disk_read_gb_per_s > 0) out.costs.disk_read_bytes_per_s = a.disk_read_gb_per_s * 1e9;
  if (a.disk_write_gb_per_s > 0) out.costs.disk_bytes_per_s = a.disk_write_gb_per_s * 1e9;
  return out;
}

}  // namespace troupe::apps
