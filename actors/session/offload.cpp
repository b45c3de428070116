// Lets a host change a run's states, or move them out of memory, between steps. Owns when that is allowed;
// state_access.hpp and offloaded_states.hpp do it.
#include <fmt/format.h>

#include "actors/processes/swap_folder_name.hpp"
#include "actors/session/parts.hpp"
#include "actors/session/state_access_parts.hpp"

namespace troupe::actors {

core::result<void> session::parts::sound() const {
  if (over.why) return core::fail(*over.why);
  if (memory.offloaded != nullptr)
    return core::fail(core::error_kind::bad_input,
                      "offload_states has taken states away: wanted reload_states before anything that needs them");
  return {};
}

core::result<void> session::parts::let_go_of_states() {
  TROUPE_TRY(sound());
  if (saving.waiting == nullptr) return {};
  // A requested save must contain the current states, so it takes its copies now.
  TROUPE_TRY(run_and_tell(plan::plan_choice::save, progress.steps));
  return {};
}

state_access session::states() {
  auto& p = *parts_;
  return state_access(std::make_shared<const state_access_parts>(
      state_access_parts{*p.plan.tensor.whole, *p.plan.optimizer, p.whole(), p.progress.gradient_factor,
                         [&p] {
                           return compression_state{p.plan.config, p.progress.applied, p.saved_masks()};
                         },
                         [&p] { return p.sound(); }, [&p] { return p.let_go_of_states(); }}));
}

core::result<offload_report> session::offload_states(offload_request request) {
  auto& p = *parts_;
  auto report = p.outlasting([&]() -> core::result<offload_report> {
    TROUPE_TRY(p.let_go_of_states());
    return p.processes.is_on() ? p.offload_together(request) : p.offload_here(request);
  });
  if (report && request.device == plan::tier::cpu && p.host.hooks.on_warning)
    p.host.hooks.on_warning(
        fmt::format("offload_states: without an accelerator, states are in host memory already: {} bytes "
                    "are counted there and none is freed; device nvme frees them",
                    report->moved_bytes));
  return report;
}

// Offloads states of this process. Each process uses its own folder within the requested one.
core::result<offload_report> session::parts::offload_here(offload_request request) {
  if (request.nvme_path.empty()) request.nvme_path = plan.config->swap_folder();
  if (processes.is_on() && request.device == plan::tier::nvme && !request.nvme_path.empty()) {
    request.nvme_path /= swap_folder_name(processes.link->place());
    std::error_code told_below;  // ignored: opening the folder reports the error
    std::filesystem::create_directory(request.nvme_path, told_below);
  }
  TROUPE_ASSIGN(auto done,
                offloaded_states::offload(memory.here, request,
                                          plan.config->swap_checksums ? page_digests::kept : page_digests::none));
  memory.offloaded = std::move(done);
  return memory.offloaded->report();
}

core::result<void> session::parts::reload_here() {
  if (memory.offloaded == nullptr) return {};
  TROUPE_TRY(memory.offloaded->reload(memory.here));
  memory.offloaded.reset();
  return {};
}

core::result<void> session::reload_states() {
  auto& p = *parts_;
  if (p.memory.offloaded == nullptr)
    return core::fail(core::error_kind::bad_input, "reload_states: no states are offloaded");
  if (!p.processes.is_on()) return p.reload_here();
  return p.outlasting([&] { return p.reload_together(); });
}

}  // namespace troupe::actors
