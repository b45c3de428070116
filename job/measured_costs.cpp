#include "job/measured_costs.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/text.hpp"
#include "job/blueprint.hpp"
#include "job/open_sizes.hpp"
#include "plan/show/tier_ladder.hpp"
#include "storage/handle/throughput.hpp"

namespace troupe::job {
namespace {

/// Sets the rates of the disk on which the job's swap folder is; warns if they cannot be measured.
void measure_disk_of(const config::job_config& c, const std::function<void(const std::string&)>& warn,
                     plan::cost_model& costs) {
  std::filesystem::path folder = c.swap_folder();
  if (folder.empty()) return;  // the run swaps nothing, so the rates of its disk are not measured
  std::error_code ec;
  if (!std::filesystem::is_directory(folder, ec)) folder = folder.parent_path();
  const auto disk = measured_disk(folder, c.aio.block_size);
  if (!disk)
    return warn("the disk of the swap folder could not be measured; default speeds are assumed: " + disk.error().text);
  costs.disk_read_bytes_per_s = disk->read_bytes_per_s;
  costs.disk_bytes_per_s = disk->written_bytes_per_s;
}

}  // namespace

bool needs_measured_costs(const config::job_config& c) {
  const auto open = open_choices_of(c);
  const auto& z = c.zero_optimization;
  const bool gradients = c.swap_gradients == config::swap_choice::always || open.swap_gradients;
  const bool states = open.sub_group || open.state_slots || (gradients && open.gradient_slots);
  const bool parameters = open.parameter_slots || open.resident_parameters;
  return open.bucket || open.gathering || open.ratio ||
         (z.offload_optimizer.device == config::offload_device::nvme && states) ||
         (z.offload_param.device == config::offload_device::nvme && parameters);
}

core::result<disk_costs> measured_disk(const std::filesystem::path& folder, uint64_t block_bytes, uint32_t passes) {
  TROUPE_ASSIGN(auto probe, storage::throughput_probe::open({.folder = folder, .bytes = probe_bytes}));
  storage::throughput_setting setting;
  setting.block_bytes = std::min(block_bytes, probe_bytes / 4);
  setting.queue_depth = static_cast<unsigned>(std::min<uint64_t>(8, probe_bytes / setting.block_bytes));
  const auto median_of = [&](storage::io_kind kind) -> core::result<double> {
    std::vector<double> rates;
    for (uint32_t pass = 0; pass < std::max(1U, passes); ++pass) {
      TROUPE_ASSIGN(const double rate, probe.measure(kind, setting));
      rates.push_back(rate);
    }
    std::ranges::sort(rates);
    return rates[rates.size() / 2];
  };
  disk_costs out{.folder = folder.string()};
  TROUPE_ASSIGN(out.read_bytes_per_s, median_of(storage::io_kind::read));
  TROUPE_ASSIGN(out.written_bytes_per_s, median_of(storage::io_kind::write));
  return out;
}

plan::cost_model measured_costs(const config::job_config& c, const product_meter& products,
                                const std::function<void(const std::string&)>& warn) {
  auto out = usual_costs(c);
  if (const double flops = products(c); flops > 0)
    out.flops_per_s = flops;
  else
    warn("matrix products could not be measured; default speeds are assumed");
  measure_disk_of(c, warn, out);
  return out;
}

plan::cost_model costs_of_run(const config::job_config& c, const std::optional<model_of_kept>& kept,
                              const product_meter& products, const std::function<void(const std::string&)>& warn) {
  const bool measures = c.zero_optimization.swaps() && needs_measured_costs(c);
  if (!kept) return measures ? measured_costs(c, products, warn) : usual_costs(c);
  auto out = kept->costs;
  if (measures && !kept->knows_disk) measure_disk_of(c, warn, out);
  return out;
}

std::string chosen_tiers(const config::job_config& c, const plan::plan_options& options,
                         const plan::cost_model& costs) {
  plan::fitted chosen;
  chosen.options = options;
  const std::string yaml = plan::as_yaml(chosen, c.swap_folder().string());
  if (!needs_measured_costs(c)) return "# This run's file left nothing to choose, so nothing was measured.\n" + yaml;
  return core::text_of(
             "# What this run chose, by these rates: reading %.2f GB/s, writing %.2f GB/s, products %.0f GFLOP/s%s.\n"
             "# Pasted over the same sections of the topology, it makes the same choice again, however fast the "
             "machine is then.\n",
             costs.disk_read_bytes_per_s / 1e9, costs.disk_bytes_per_s / 1e9, costs.flops_per_s / 1e9,
             c.device == core::device_kind::cpu ? " a core" : " of the device") +
         yaml;
}

}  // namespace troupe::job
