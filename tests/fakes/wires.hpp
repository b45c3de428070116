// Links between processes that share no memory, all of them here: every byte_mover's twin, with an order of all that
// happens that is drawn from a seed, and links that end. Owns what is under way; nothing happens but in `step`.
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

/// Any thread; one `step` at a time.
class modelled_wires : public std::enable_shared_from_this<modelled_wires> {
 public:
  explicit modelled_wires(uint64_t seed) : random_(seed) {}

  /// The mover of a process.
  std::shared_ptr<byte_mover> at(uint32_t place);

  /// Does one thing of all that can be done, drawn: moves a transfer's bytes, tells one end of it, or brings a note.
  /// False if there is nothing to do.
  bool step();
  [[nodiscard]] size_t under_way() const;

  /// The process ends: its mover stops, and every transfer of others with it ends with `why`, now and later.
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
    transfer_end tell_sender, tell_receiver;  // empty: this end has not called
  };
  struct word_to_say {  ///< an end to tell
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
  std::vector<key> whole_;  ///< of open_: both ends have called
  std::vector<word_to_say> words_;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::string>> notes_;
  std::map<uint32_t, hearer> hearers_;
  std::map<uint32_t, core::error> stopped_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> moved_;  ///< bytes, by who sent and who received
  std::set<key> used_;
  std::map<uint32_t, int> telling_;  ///< calls that run, by place
};

}  // namespace troupe::fabric
