// Models a link between a supervisor and a process of a simulated job: production message frames as bytes on a virtual
// clock. Owns the frames' delays, pauses and the end of the link; leaves the messages to the job.
//
// Real links are pairs of stream sockets. The operating system never loses, repeats or reorders data of a stream: a
// frame may arrive late, in parts or never, and every other fault appears as bytes that are no message or as the end of
// the stream. So a partition is simulated by a stream that is paused, in one direction or both; loss, repetition and
// reordering by a stream that ends in the middle of a frame, or continues with invalid bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cluster/link.hpp"

namespace troupe::sim {

/// One direction of a link. It must be used by one thread only.
class modelled_stream {
 public:
  /// Each part of a frame is delayed by `delay_min_ns` and a random time of up to `delay_max_ns` more; no part
  /// overtakes another.
  modelled_stream(std::function<int64_t()> now_ns, uint64_t seed, int64_t delay_max_ns, int64_t delay_min_ns = 0)
      : now_ns_(std::move(now_ns)), random_(seed), delay_max_ns_(delay_max_ns), delay_min_ns_(delay_min_ns) {}

  void send(const cluster::parcel& p);
  core::result<std::vector<cluster::parcel>> receive();

  /// Delivers nothing before `until_ns`.
  void hold(int64_t until_ns) { held_until_ns_ = std::max(held_until_ns_, until_ns); }
  /// Ends the stream after all data that was sent before.
  void close();
  /// Discards all data that has not arrived, except perhaps a part of one frame, and ends the stream.
  void cut();
  /// Sends bytes that are no valid frame, after all data that was sent before.
  void garble();

  /// Returns the virtual time, in ns, at which data arrives, or INT64_MAX if none is in transit.
  [[nodiscard]] int64_t due_ns() const;

 private:
  struct part {
    int64_t due_ns = 0;
    std::string bytes;
    std::vector<cluster::shared_descriptor> with{};
    bool ends = false;
  };
  void add(part p);

  std::function<int64_t()> now_ns_;
  std::mt19937_64 random_;
  int64_t delay_max_ns_, delay_min_ns_, held_until_ns_ = 0;
  std::deque<part> parts_;
  cluster::frame_reader in_;
  bool closed_ = false, ended_ = false;
};

class modelled_link final : public cluster::polled_link {  ///< one end of a link; it has no file descriptor to poll
 public:
  modelled_link(std::shared_ptr<modelled_stream> out, std::shared_ptr<modelled_stream> in)
      : out_(std::move(out)), in_(std::move(in)) {}
  core::result<void> send(cluster::parcel p) override {
    out_->send(p);
    return {};
  }
  core::result<std::vector<cluster::parcel>> receive() override { return in_->receive(); }
  [[nodiscard]] int number() const override { return -1; }

 private:
  std::shared_ptr<modelled_stream> out_, in_;
};

}  // namespace troupe::sim
