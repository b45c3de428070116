// Limits the lines about peers that are refused at a port, because any machine on the network can connect as often as
// it likes: writes some lines a minute and counts the rest.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace troupe::apps {

/// Number of lines about refused peers that are written within a minute at most.
inline constexpr uint32_t refusals_said_max = 10;

class refusal_log {  ///< limits the number of lines about refused connections within a minute; used by one thread
 public:
  explicit refusal_log(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

  void add(const std::string& why, int64_t now_ns) {
    constexpr int64_t minute_ns = 60'000'000'000;
    if (said_ == 0 || now_ns - since_ns_ > minute_ns) {
      if (unsaid_ > 0) say_(fmt::format("refused: {} more in the minutes before", unsaid_));
      since_ns_ = now_ns;
      said_ = 0;
      unsaid_ = 0;
    }
    if (said_ == refusals_said_max) {
      ++unsaid_;
      return;
    }
    ++said_;
    say_("refused: " + why);
    if (said_ == refusals_said_max) say_("refused: further ones in this minute are counted but not shown");
  }

 private:
  std::function<void(const std::string&)> say_;
  int64_t since_ns_ = 0;
  uint32_t said_ = 0;
  uint64_t unsaid_ = 0;
};

}  // namespace troupe::apps
