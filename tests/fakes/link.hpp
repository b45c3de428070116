// A link between a supervisor and a process of a simulated job: production's frames as bytes on a virtual clock. Owns
// their delays, holds and ends; what is said is the job's.
//
// Real links are pairs of stream sockets. The system loses, repeats and reorders nothing of a stream: a frame may come
// late, in parts or never, and whatever else goes wrong is seen as bytes that are no message or as a stream that ends.
// So a partition is a stream that is held, one way or both; loss, repetition and reordering are a stream that ends in
// the middle of a frame, or goes on with bytes that are no frame.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cluster/link.hpp"

namespace troupe::cluster {

/// One direction. Single-threaded.
class modelled_stream {
 public:
  /// Each part of a frame takes between `delay_min_ns` and as much more as `delay_max_ns`, and none overtakes another.
  modelled_stream(std::function<int64_t()> now_ns, uint64_t seed, int64_t delay_max_ns, int64_t delay_min_ns = 0)
      : now_ns_(std::move(now_ns)), random_(seed), delay_max_ns_(delay_max_ns), delay_min_ns_(delay_min_ns) {}

  void send(const parcel& p);
  core::result<std::vector<parcel>> receive();

  /// Nothing arrives before.
  void hold(int64_t until_ns) { held_until_ns_ = std::max(held_until_ns_, until_ns); }
  /// What was sent arrives, then the end.
  void close();
  /// What has not arrived never will; perhaps half a frame does, then the end.
  void cut();
  /// What was sent arrives, then bytes that are no frame.
  void garble();

  /// When there is something to receive; INT64_MAX: nothing is under way.
  [[nodiscard]] int64_t due_ns() const;

 private:
  struct part {
    int64_t due_ns = 0;
    std::string bytes;
    std::vector<shared_descriptor> with{};
    bool ends = false;
  };
  void add(part p);

  std::function<int64_t()> now_ns_;
  std::mt19937_64 random_;
  int64_t delay_max_ns_, delay_min_ns_, held_until_ns_ = 0;
  std::deque<part> parts_;
  frame_reader in_;
  bool closed_ = false, ended_ = false;
};

class modelled_link final : public polled_link {  ///< one end; nobody polls it
 public:
  modelled_link(std::shared_ptr<modelled_stream> out, std::shared_ptr<modelled_stream> in)
      : out_(std::move(out)), in_(std::move(in)) {}
  core::result<void> send(parcel p) override {
    out_->send(p);
    return {};
  }
  core::result<std::vector<parcel>> receive() override { return in_->receive(); }
  [[nodiscard]] int number() const override { return -1; }

 private:
  std::shared_ptr<modelled_stream> out_, in_;
};

}  // namespace troupe::cluster
