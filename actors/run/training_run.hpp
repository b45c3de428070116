// One training run: the objects behind a session. Values that several of these objects use are plain members; each
// other member owns one responsibility, and reaches the rest through the run. A run is opened as a whole, and neither
// copied nor moved.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/modules/host_modules.hpp"
#include "actors/opening/opening.hpp"
#include "actors/run/actor_home.hpp"
#include "actors/run/host_messages.hpp"
#include "actors/run/own_loop.hpp"
#include "actors/run/pass_scheduler.hpp"
#include "actors/run/peers.hpp"
#include "actors/run/rate_keeper.hpp"
#include "actors/run/resumer.hpp"
#include "actors/run/run_progress.hpp"
#include "actors/run/run_recorder.hpp"
#include "actors/run/run_states.hpp"
#include "actors/run/run_term.hpp"
#include "actors/run/save_keeper.hpp"
#include "actors/run/spike_guard.hpp"
#include "actors/run/step_runner.hpp"
#include "actors/run/term_maker.hpp"
#include "actors/run/training_data.hpp"
#include "core/clock.hpp"
#include "models/cuda/use.hpp"

namespace troupe::actors {

struct training_run {
  /// Opens a run whose parallel degrees are known, as session::open describes. Calls `make_peers` when the run has
  /// plans.
  static core::result<std::unique_ptr<training_run>> open(const session_options& options,
                                                          const peers_maker& make_peers);
  training_run() = default;
  training_run(const training_run&) = delete;
  training_run& operator=(const training_run&) = delete;
  /// Ends the run, in any state, without calling hooks of the host program.
  ~training_run();

  std::unique_ptr<models::cuda_use> on_gpu;  ///< the process's use of CUDA; null on the CPU
  host_messages host;
  host_modules modules;
  training_data data;
  std::unique_ptr<peers> others = std::make_unique<peers>(*this);
  std::unique_ptr<run_term> term;  ///< the current term; null until the first plans are made
  // Declared after `term`, so that it is destroyed first: the actors end with their system, before the memory of the
  // term (time with the same processes) that they use.
  actor_home home;
  training_progress progress;
  order_counts counts;
  run_over over;

  term_maker terms{*this};
  step_runner steps{*this};
  own_loop loop{*this};
  pass_scheduler passes{*this};
  rate_keeper rates{*this};
  run_recorder recorder{*this};
  save_keeper saves{*this};
  actors::resumer resumer{*this};
  spike_guard spikes{*this};

  /// Returns the error with which the run has ended, or an error if states are offloaded; otherwise success.
  [[nodiscard]] core::result<void> sound() const;
  /// Returns the peak bytes of activations that a rank has had so far.
  [[nodiscard]] uint64_t peak_bytes(uint32_t rank) const;
  /// Returns the bytes of memory of each rank, by use.
  [[nodiscard]] std::vector<rank_memory_report> memory_reports() const;
  /// Returns the current instruction of each rank and its reason to wait; session::diagnose describes the order.
  [[nodiscard]] std::vector<rank_diagnosis> diagnose() const;

  /// Calls `action`, which needs the ranks of all processes, and returns its result. If processes are lost meanwhile,
  /// recovers to the present step and calls `action` again with the ranks of the new term (time with the same
  /// processes).
  template <class Action>
  auto outlast(Action action) -> decltype(action()) {
    for (const uint64_t step = progress.steps;;) {
      const int64_t begin_ns = core::now_ns();
      auto did = action();
      if (!did) others->note_loss();
      if (did || !others->are_there() || !over.why) return did;
      TROUPE_TRY(others->recover_to(step, did.error(), begin_ns));
    }
  }
};

}  // namespace troupe::actors
