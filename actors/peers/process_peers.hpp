// Implements `peers` for a job of several processes: begins and ends terms (the times in which processes, ranks and
// degrees stay the same). Every process has a session and plans all ranks; it has memory and actors for its own ranks
// only. Owns the order of the phases of a term; leading_calls.hpp and served_calls.hpp own the messages during a term,
// memory_keeper.hpp the saves in memory, machine_disks.hpp checkpoints on disks of machines.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/opening/opening.hpp"
#include "actors/peers/leading_calls.hpp"
#include "actors/peers/machine_disks.hpp"
#include "actors/peers/memory_keeper.hpp"
#include "actors/peers/process_links.hpp"
#include "actors/peers/served_calls.hpp"
#include "actors/run/peers.hpp"

namespace troupe::actors {

class process_peers final : public peers {
 public:
  /// `run` must have plans, and `options.process` must be the link to the supervisor.
  process_peers(training_run& run, const session_options& options);

  /// Takes part in terms (times with the same processes) until one has begun in which this process has ranks. Errors:
  /// the run has ended.
  core::result<void> begin(const session_options& options, opening_watch& watch) override;

  [[nodiscard]] bool are_there() const override { return true; }
  [[nodiscard]] bool leads() const override { return links_.leads(); }
  [[nodiscard]] bool is_here(uint32_t rank) const override { return links_.is_here(rank); }
  [[nodiscard]] ranks_here here() const override;
  [[nodiscard]] uint32_t share_of(uint32_t ranks, const config::job_config& config) const override {
    return ranks / config.cluster.processes_for(ranks);
  }
  [[nodiscard]] std::filesystem::path own_folder(const std::filesystem::path& folder) const override;
  [[nodiscard]] uint64_t peak_bytes(uint32_t rank) const override { return links_.peak_bytes[rank]; }

  core::result<void> share(const std::vector<uint64_t>& segment_bytes) override;
  [[nodiscard]] std::optional<shared_segment> segment_of(uint32_t rank) const override {
    return links_.shared->segment_of(rank);
  }
  [[nodiscard]] fabric_join fabric() const override;
  core::result<void> show_pulses(const std::shared_ptr<pulse_board>& board,
                                 std::chrono::nanoseconds stall_after) override;

  core::result<run_outcome> run(plan::plan_choice which, const std::shared_ptr<step_order>& order) override;
  void tell_masks(std::vector<std::vector<uint8_t>> masks) override;
  core::result<std::filesystem::path> load(const std::filesystem::path& path, const load_options& options) override {
    return leading_.load(path, options);
  }
  core::result<offload_report> offload(const offload_request& request) override { return leading_.offload(request); }
  core::result<void> reload() override { return leading_.reload(); }
  core::result<void> check_tags(const std::string& mine) override { return leading_.check_tags(mine); }
  void tell_saved(const save_job& save, const save_report& report) override { disks_.tell_saved(save, report); }
  [[nodiscard]] std::unique_ptr<storage::file_system> files_of_machines() const override;

  core::result<void> begin_save_in_memory() override { return keeper_.begin_if_due(); }
  [[nodiscard]] std::shared_ptr<save_job> save_in_memory() const override { return keeper_.under_way(); }
  core::result<void> end_save_in_memory() override { return keeper_.end(); }
  core::result<void> save_in_memory_now() override { return keeper_.save_now(); }
  [[nodiscard]] std::optional<uint64_t> saved_in_memory() const override { return keeper_.newest(); }
  core::result<void> go_back_in_memory(std::vector<core::left_out_steps> left_out, const std::string& why) override;

  core::result<bool> take_passes(const plan::plan_options& train) override;
  void tell_schedule(std::vector<told_schedule> schedule) override;

  core::result<void> let_join() override;
  core::result<void> change_degrees(std::shared_ptr<const config::job_config> next) override;
  void note_loss() override;
  core::result<void> recover_to(uint64_t steps, const core::error& why, int64_t begin_ns) override;
  [[nodiscard]] bool has_losses() const override;
  core::result<void> recover() override;
  core::result<void> serve() override;
  [[nodiscard]] const recovery_counts& counts() const override { return links_.counts; }

  std::vector<slow_link_report> take_slow_links() override { return leading_.take_slow_links(); }
  [[nodiscard]] std::string slow_links_of_run() const override;
  void explain_waits(std::vector<rank_diagnosis>& all) const override;
  void close_line() override;
  void end() override;

 private:
  core::result<void> enter_term(opening_watch& watch);
  core::result<void> begin_term(const cluster::term_order& order, opening_watch& watch);
  /// Returns how the term begins (costs, checkpoint, passes): the leading process decides this and sends it to the
  /// others.
  core::result<opening_call> share_opening(const cluster::term_order& order, const config::job_config& config);
  core::result<opening_call> decide(const cluster::term_order& order, const config::job_config& config);
  core::result<job::blueprint> planned(std::shared_ptr<const config::job_config> config, const opening_call& opening,
                                       opening_watch& watch) const;
  core::result<void> take_states(const cluster::term_order& order, const opening_call& opening, opening_watch& watch);
  /// Takes over the counts of earlier terms from the supervisor, because the process that led those terms was lost.
  void count_terms_before(const cluster::run_so_far& before, int64_t begin_ns);
  /// Ends the actors and the memory of this process's ranks, because of `why` or because the term (time with the same
  /// processes) has ended. Errors: the run has ended.
  core::result<void> leave_term(const core::error& why);
  /// Ends this process's part in the current term (time with the same processes) because of `why`, and enters the next
  /// term.
  core::result<void> replace_term(const core::error& why);
  /// Makes a save in memory, and ends the term for one that continues from that save with `data` data ranks (0: as many
  /// as possible). Call between two steps.
  core::result<void> end_term_for(uint32_t data, const std::string& cause = {});

  process_links links_;
  memory_keeper keeper_{run_, links_};
  machine_disks disks_{run_, links_};
  leading_calls leading_{run_, links_, keeper_};
  served_calls served_{run_, links_, disks_};
  std::optional<job::model_of_kept> kept_costs_;  // constants of this process's machine, used while it leads
  std::function<core::result<resume_choice>(bool again)> choose_resume_;
  /// Samples that the next term (time with the same processes) leaves out, if they differ from the list in the save
  /// from which the term begins.
  std::optional<std::vector<core::left_out_steps>> left_out_;
  /// Options of the training step that passes have chosen, for this term and later ones with the same number of data
  /// ranks; none: the configuration's first passes.
  std::optional<chosen_passes> passes_;
  uint32_t passes_data_ = 0;  // number of data ranks that `passes_` were chosen for
  bool has_led_ = false;      // true: this process led the previous term
};

}  // namespace troupe::actors
