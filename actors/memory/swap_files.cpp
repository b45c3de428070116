#include "actors/memory/swap_files.hpp"

#include <fmt/format.h>

#include "plan/layout/activation_extents.hpp"

namespace troupe::actors {

std::vector<storage::swap_category> swap_categories(plan::rank_plans plans) {
  static constexpr const char* names[plan::num_state_parts] = {"gradients",      "master weights", "first moments",
                                                               "second moments", "third moments",  "16-bit parameters"};
  uint64_t bytes[plan::num_state_parts] = {};
  for (const auto& p : plans)
    for (const auto& b : p->blocks)
      for (uint32_t k = 0; k < plan::num_state_parts; ++k)
        if (const auto part = static_cast<plan::state_part>(k); b.holds(part))
          bytes[k] += b.elements * core::size_of(plan::type_of(*p->layout, part)) *
                      (part != plan::state_part::gradient && plan::second_place(*p->layout, b) > 0 ? 2 : 1);
  uint64_t inputs = 0;
  for (const auto& p : plans)
    for (const auto& x : p->activation_extents) inputs += x.bytes;
  std::vector<storage::swap_category> out;
  for (uint32_t k = 0; k < plan::num_state_parts; ++k)
    if (bytes[k] > 0) out.push_back({names[k], bytes[k]});
  if (inputs > 0) out.push_back({"activations", inputs});
  return out;
}

core::result<swap_files> open_swap_files(const config::job_config& config, const std::filesystem::path& folder,
                                         plan::rank_plans plans) {
  swap_files out;
  // The passes of `compile` may replace the plan during a run, and the new plan may need a larger swap file.
  const auto bytes_of = [&](const plan::rank_plan& p) {
    return config.compile.enabled ? plan::most_swap_file_bytes(p) : p.swap_file_bytes;
  };
  uint64_t bytes = 0;
  for (const auto& p : plans) bytes += bytes_of(*p);
  if (bytes == 0) return out;
  TROUPE_ASSIGN(auto space,
                storage::swap_space::open(
                    {.folder = folder, .wanted = swap_categories(plans), .checksums = config.swap_checksums}));
  out.space = std::move(space);
  for (const auto& p : plans) {
    TROUPE_ASSIGN(auto file,
                  out.space->create(fmt::format("rank{}", p->rank), std::max(bytes_of(*p), plan::swap_page_bytes)));
    out.ranks.push_back(std::move(file));
  }
  TROUPE_ASSIGN(auto watch, storage::event_watch::start());
  out.watch = std::move(watch);
  return out;
}

storage::swap_queue_options queue_options(const config::job_config& config) {
  storage::swap_queue_options out;
  const auto& aio = config.aio;
  if (aio.queue_depth_given) out.depth = aio.queue_depth;
  out.block_bytes = aio.block_size;
  out.single_submit = aio.single_submit;
  out.overlap_events = aio.overlap_events;
  // In DeepSpeed each thread has a queue of requests; here each thread of the pool has one request in flight.
  // DeepSpeed's number of threads is therefore used only if the configuration states it.
  if (aio.intra_op_parallelism_given) out.threads = aio.intra_op_parallelism;
  return out;
}

}  // namespace troupe::actors
