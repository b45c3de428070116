// What a process of a job knows of its terms: which one it is in, what has come for it, when it gives its ranks up.
// Owns these decisions and nothing else: events go in, what follows comes out. process.hpp does it with a thread and a
// link, simulations play it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/clock_offset.hpp"
#include "cluster/messages.hpp"
#include "cluster/silence.hpp"

namespace troupe::cluster {

/// A file of a save in memory.
struct file_in_memory {
  uint64_t bytes = 0;
  shared_descriptor with;  ///< null: it lies on another machine
  uint32_t place = 0;      ///< a process of the term on whose machine it lies
};

struct term_order {  ///< what a process is told of a term
  begin_term order;
  std::map<std::string, file_in_memory> files;  ///< by path: of the save that it continues from
};

/// What is to be done after an event.
struct consequence {
  std::optional<message> say;        ///< to the supervisor
  std::optional<core::error> ended;  ///< the term has just ended: its ranks are told
  std::optional<answer> note;        ///< for who leads
  std::optional<uint64_t> question;  ///< people ask what this process is in
};

class process_state {  ///< of one process; one thread at a time
 public:
  process_state(uint32_t place, int64_t lost_after_ns, int64_t now_ns);

  // Events.
  consequence hear(parcel p, int64_t now_ns);
  consequence lose_supervisor(const std::string& how);
  /// Time has passed; at least every `beat_ns`. A process that did not run for long, or of which no beat for so long
  /// was answered, gives its ranks up before its supervisor plans without them: the time counts from when it said the
  /// last one that was answered, so that an answer that comes late is no younger for it.
  consequence look(int64_t now_ns);
  /// What says that this process lives, where it is time for it.
  std::optional<beat> due_beat(int64_t now_ns);
  [[nodiscard]] int64_t beat_ns() const { return cluster::beat_ns(lost_after_ns_); }

  // What the session waits for. Nothing: not yet. Errors: as in process.hpp.
  std::optional<core::result<term_order>> next_term();
  [[nodiscard]] std::optional<core::result<void>> started() const;
  std::optional<core::result<std::map<uint32_t, shared_descriptor>>> take(const std::vector<uint32_t>& numbers);
  std::optional<core::result<std::map<uint32_t, address>>> addresses(const std::vector<uint32_t>& places);
  std::optional<core::result<std::vector<answer>>> answers(uint64_t number, size_t count);
  /// Places with ranks that the answers waited for have not come from; none where nothing is waited for, or where not
  /// all have to answer.
  [[nodiscard]] std::vector<uint32_t> unanswered() const;
  std::optional<core::result<call>> next_call();
  [[nodiscard]] std::optional<end_term> end_of_term() const;

  // What it is in.
  [[nodiscard]] uint64_t term() const { return term_; }
  [[nodiscard]] bool leads() const { return leads_; }
  [[nodiscard]] bool is_join_wanted() const { return join_wanted_; }
  void forget_join() { join_wanted_ = false; }
  [[nodiscard]] const std::optional<end_term>& ending() const { return ending_; }
  /// Who is there, as this process was told last; one that never led knows nobody.
  [[nodiscard]] const roster& people() const { return people_; }
  [[nodiscard]] std::optional<clock_reading> clock(int64_t now_ns) const { return clock_.at(now_ns); }

 private:
  consequence end(const end_term& why);
  void look_at_clock(int64_t now_ns);
  /// Why nothing that a wait is for can come any more.
  [[nodiscard]] std::optional<core::error> is_over() const;

  uint32_t place_;
  int64_t lost_after_ns_;
  int64_t heard_ns_, looked_ns_, beat_due_ns_;
  int64_t answered_ns_ = INT64_MIN;  ///< when the last beat that was answered was said
  uint64_t term_ = 0, started_ = 0;
  bool is_unheard_ = false;  ///< for so long that its supervisor may plan without it
  /// When it began to run, at first or again after a while, until a beat of then is answered.
  std::optional<int64_t> back_ns_;
  bool leads_ = false, join_wanted_ = false, is_first_beat_ = false;
  std::deque<begin_term> terms_;
  std::map<std::string, file_in_memory> files_;
  std::map<std::pair<uint64_t, uint32_t>, shared_descriptor> offers_;  ///< by term and number
  std::map<std::pair<uint64_t, uint32_t>, address> addresses_;         ///< by term and place
  std::deque<call> calls_;
  std::vector<answer> answers_;
  std::optional<std::pair<uint64_t, size_t>> awaited_;  ///< the call, and how many answers, that are waited for
  std::optional<end_term> ending_;
  std::optional<core::error> over_;
  roster people_;
  clock_offset clock_;
};

}  // namespace troupe::cluster
