// What others may know of a run that trains, and what they may ask of it while it does, from any thread. Owns the state
// and the wishes; the run takes wishes at its boundaries between steps, ask_socket.hpp carries questions.
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
#include "apps/base/checkpoints.hpp"
#include "cluster/messages.hpp"

namespace troupe::apps {

class run_state {
 public:
  explicit run_state(uint64_t steps) : steps_(steps) {}

  // ---- the run tells
  /// Before its first step; `done` are those of before.
  void begin(uint64_t done, const std::string& loss_unit);
  void enter(const char* phase);  ///< opening, training, evaluating, saving, sampling, over
  void step(const actors::step_report& r, uint64_t memory_bytes);
  void went_back(uint64_t done);  ///< to an earlier step
  void evaluation(double loss);
  void checkpoint(const checkpoint_event& e);
  void checkpoint_failed(const std::string& why);
  /// After what a wish has led to: whoever waits is told of this step's checkpoint, or that there is none.
  void end_wish();
  void page(const std::string& address);    ///< where the run shows itself
  void terms(const std::string& sentence);  ///< of a job of several processes

  // ---- the run asks, between two steps
  [[nodiscard]] bool is_stop_wanted() const;
  [[nodiscard]] bool is_save_wanted() const;
  bool take_save_wish();
  /// Returns when nobody wants the run to wait, or `is_over`, asked several times a second.
  void wait_while_paused(const std::function<bool()>& is_over);

  // ---- others ask
  /// What the run is in; "paused" while it waits.
  [[nodiscard]] std::string phase() const;
  [[nodiscard]] uint64_t steps_done() const;
  /// As one JSON object; `people` are the processes of a job that has several.
  [[nodiscard]] std::string status(const cluster::roster& people = {}) const;
  /// "paused" once the run waits, which is after its step.
  void pause(bool wanted);
  [[nodiscard]] bool is_paused() const;
  void stop();
  /// A save at the next boundary; the number to ask `saved` with.
  uint64_t save();
  /// How the first save after that wish ended: a folder, or why not; none while it has not.
  struct save_end {
    std::string folder, failure;
  };
  [[nodiscard]] std::optional<save_end> saved(uint64_t number) const;
  /// Spare processes that hosts have been promised which are replaced once this term ends.
  struct promised_spares {
    size_t processes = 0;
    std::string hosts;  ///< "b, c"
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
  std::optional<checkpoint_event> last_;
  bool pauses_ = false, waits_ = false, stops_ = false, saves_ = false;
  uint64_t wishes_ = 0, taken_ = 0;
  uint64_t promised_in_ = 0;                         ///< term
  std::map<std::string, size_t> promised_{};         ///< by host
  std::vector<std::pair<uint64_t, save_end>> ends_;  ///< with the wishes that had been taken when each save ended
};

}  // namespace troupe::apps
