// Fakes links between processes that share no memory, all within this process: an implementation of byte_mover whose
// order of events depends on a seed, and whose links can end. Owns all transfers and notes in transit; events happen
// only in `step`.
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

/// All functions may be called from any thread, but only one `step` may run at a time.
class modelled_wires : public std::enable_shared_from_this<modelled_wires> {
 public:
  explicit modelled_wires(uint64_t seed) : random_(seed) {}

  /// Returns the mover of the process `place`.
  std::shared_ptr<byte_mover> at(uint32_t place);

  /// Carries out one random event among those that are possible: moves the bytes of a transfer, reports the end of a
  /// transfer to one side, or delivers a note. Returns false if none is possible.
  bool step();
  [[nodiscard]] size_t under_way() const;

  /// Simulates the end of a process: its mover stops, and all current and later transfers of other processes with it
  /// end with `why`.
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
    transfer_end tell_sender, tell_receiver;  // callbacks of the two sides; empty until the side has called
  };
  struct word_to_say {  ///< the end of a transfer that has not been reported yet
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
  std::vector<key> whole_;  ///< keys of open_ for which both sides have called
  std::vector<word_to_say> words_;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::string>> notes_;
  std::map<uint32_t, hearer> hearers_;
  std::map<uint32_t, core::error> stopped_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> moved_;  ///< number of bytes moved, by sender and receiver
  std::set<key> used_;
  std::map<uint32_t, int> telling_;  ///< number of running callbacks of each process, by its index
};

}  // namespace troupe::fabric
