#include "actors/run/peers.hpp"

#include "actors/memberships.hpp"
#include "actors/run/training_run.hpp"
#include "core/error.hpp"

namespace troupe::actors {
namespace {

/// Returns how the first term of a run gets its states if all ranks are in this process: from a checkpoint, or from
/// first weights.
term_states first_states(training_run& run, const session_options& options) {
  const bool resumes = !options.resume.empty();
  return {resumes ? weights_before(run, options.load) : first_weights::drawn,
          [&run, resumes, &options](opening_watch& watch) -> core::result<void> {
            TROUPE_TRY(run.resumer.look_at_teacher());
            if (resumes)
              TROUPE_TRY(run.resumer.resume(options.resume, options.load, resume_time::while_opening, watch));
            else
              TROUPE_TRY(run.resumer.begin(watch));
            run.passes.schedule();
            return {};
          }};
}

}  // namespace

core::result<void> peers::begin(const session_options& options, opening_watch& watch) {
  run_.recorder.continue_curves_of(options.resume);
  return run_.terms.begin(first_states(run_, options), watch);
}

ranks_here peers::here() const { return ranks_here(run_.term->ranks(), true); }

fabric_join peers::fabric() const {
  const auto& first = *run_.term->memory.ranks.front();
  return
      [groups = in_process_groups(*first.plan().layout, first.device())](
          uint32_t communicator, uint32_t member, const fabric::waker& wake) -> std::shared_ptr<fabric::communicator> {
        return groups[communicator]->join(member, wake);
      };
}

core::result<run_outcome> peers::run(plan::plan_choice which, const std::shared_ptr<step_order>& order) {
  return run_.steps.run_here(which, order);
}

core::result<std::filesystem::path> peers::load(const std::filesystem::path& path, const load_options& options) {
  opening_watch unwatched({});
  return run_.resumer.resume(path, options, resume_time::while_running, unwatched);
}

core::result<offload_report> peers::offload(const offload_request& request) { return offload_here(run_, request); }

core::result<void> peers::reload() { return reload_here(run_); }

core::result<void> peers::go_back_in_memory(std::vector<core::left_out_steps> /*left_out*/,
                                            const std::string& /*why*/) {
  return core::fail(core::error_kind::bug, "a run of one process has no save in memory to go back to");
}

core::result<void> peers::change_degrees(std::shared_ptr<const config::job_config> next) {
  // The failure of a save is reported to the host program by on_saved; here only the end of the run is an error.
  if (auto ok = run_.saves.end_saves(); !ok && run_.over.why) return ok;
  return run_.terms.change_degrees(std::move(next));
}

const recovery_counts& peers::counts() const {
  static const recovery_counts none;
  return none;
}

}  // namespace troupe::actors
