// Fakes links between processes that share no memory, all within this process: an implementation of byte_mover with an
// order of events that is drawn from a seed, and with links that end. Owns everything under way; events happen only in
// `step`.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fabric/wire/byte_mover.hpp"

namespace troupe::fabric {

/// Callable from any thread; one `step` at a time.
class modelled_wires : public std::enable_shared_from_this<modelled_wires> {
 public:
  explicit modelled_wires(uint64_t seed) : random_(seed) {}

  /// Returns the mover of the process `place`.
  std::shared_ptr<byte_mover> at(uint32_t place);

  /// Carries out one event, drawn from all that are possible: moves a transfer's bytes, reports the end of a transfer
  /// to one side, or delivers a note. Returns false if there is none.
  bool step();
  [[nodiscard]] size_t under_way() const;

  /// Ends a process: its mover stops, and every transfer of other processes with it ends with `why`, now and later.
  void lose(uint32_t place, const core::error& why);

 private:
  class mover;
  struct key {
    uint32_t from = 0, to = 0;
    transfer_name name;
    friend auto operator<=>(const key&, const key&) = default;
  };
  struct transfer {
    std::span<const std::byte> from;
    std::span<std::byte> to;
    transfer_end tell_sender, tell_receiver;  // empty: this side has not called
  };
  struct word_to_say {  ///< end of a transfer that is still to be reported
    uint32_t place = 0;
    transfer_end tell;
    core::result<void> how;
  };
  using hearer = std::function<void(uint32_t, std::string_view)>;

  void add(const key& k, const std::function<void(transfer&)>& set);
  void stop(uint32_t place, const core::error& why);
  void note(uint32_t from, uint32_t to, std::string text);
  void move(const key& k);

  mutable std::mutex mutex_;
  std::condition_variable told_;
  std::mt19937_64 random_;
  std::map<key, transfer> open_;
  std::vector<key> whole_;  ///< keys of open_ whose two sides have both called
  std::vector<word_to_say> words_;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::string>> notes_;
  std::map<uint32_t, hearer> hearers_;
  std::map<uint32_t, core::error> stopped_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> moved_;  ///< bytes, by sender and receiver
  std::set<key> used_;
  std::map<uint32_t, int> telling_;  ///< number of running callbacks, by place
};

}  // namespace troupe::fabric
