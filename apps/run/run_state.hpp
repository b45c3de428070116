// Owns the state of a training run that other threads may read, and their requests. The run handles requests between
// steps. Leaves questions to ask_socket.hpp.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/session/session.hpp"
#include "apps/base/training/checkpoints.hpp"
#include "cluster/messages.hpp"

namespace troupe::apps {

class run_state {
 public:
  explicit run_state(uint64_t steps) : steps_(steps) {}

  // ---- Functions by which the run reports

  /// Called before the first step; `done` is the number of earlier steps.
  void begin(uint64_t done, const std::string& loss_unit);
  void enter(const char* phase);  ///< phases: opening, training, evaluating, saving, sampling, over
  void step(const actors::step_report& r, uint64_t memory_bytes);
  void went_back(uint64_t done);  ///< notes that the run continues from an earlier state, after `done` steps
  void evaluation(double loss);
  void checkpoint(const actors::save_report& e);
  void checkpoint_failed(const std::string& why);
  /// Called after a requested save. Stores the result for the requests that wait for it: the checkpoint of this step,
  /// or that none was written.
  void end_wish();
  void page(const std::string& address);    ///< sets the address of the run's page
  void terms(const std::string& sentence);  ///< sets the sentence about the terms of a job of several processes

  // ---- Functions that the run calls between two steps
  [[nodiscard]] bool is_stop_wanted() const;
  [[nodiscard]] bool is_save_wanted() const;
  bool take_save_wish();
  /// Blocks until the pause ends, a save or stop is requested, or `is_over` returns true. Calls `is_over` several times
  /// a second.
  void wait_while_paused(const std::function<bool()>& is_over);

  // ---- Functions that other threads call

  /// Returns the run's phase; "paused" while the run waits for the end of a pause.
  [[nodiscard]] std::string phase() const;
  [[nodiscard]] uint64_t steps_done() const;
  /// Returns the state as one JSON object; `people` lists the processes of a job that has several.
  [[nodiscard]] std::string status(const cluster::roster& people = {}) const;
  /// Requests or ends a pause. The pause begins after the current step, when the run calls wait_while_paused().
  void pause(bool wanted);
  [[nodiscard]] bool is_paused() const;
  void stop();
  /// Requests a save at the next boundary between steps. Returns the number to pass to `saved`.
  uint64_t save();
  /// Result of the first save after a request: the checkpoint's folder, or the failure.
  struct save_end {
    std::string folder, failure;
  };
  [[nodiscard]] std::optional<save_end> saved(uint64_t number) const;
  /// Spare processes that a request to replace machines has reserved for the next term.
  struct promised_spares {
    size_t processes = 0;
    std::string hosts;  ///< names of the machines that the spare processes will replace: "b, c"
  };
  void promise_spares(uint64_t term, const std::string& host, size_t processes);
  [[nodiscard]] promised_spares promised(uint64_t term, const std::string& to_others_than) const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t steps_, done_ = 0, tokens_ = 0, memory_bytes_ = 0;
  std::string loss_unit_, phase_ = "opening", terms_, page_;
  double loss_ = 0, step_s_ = 0;
  std::optional<double> validation_;
  std::optional<actors::save_report> last_;
  bool pauses_ = false, waits_ = false, stops_ = false, saves_ = false;
  uint64_t wishes_ = 0, taken_ = 0;
  uint64_t promised_in_ = 0;                  ///< number of the term in which spare processes were promised
  std::map<std::string, size_t> promised_{};  ///< [name of a machine]: number of spare processes that will replace it
  /// Results of saves, each with the number of requests to save that had been received when the save ended
  std::vector<std::pair<uint64_t, save_end>> ends_;
};

}  // namespace troupe::apps
