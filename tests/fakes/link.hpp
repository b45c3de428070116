// Fakes a link between a supervisor and a process of a simulated job: production's frames as bytes on a virtual clock.
// Owns their delays, holds and ends; leaves the messages to the job.
//
// Real links are pairs of stream sockets. The operating system loses, repeats and reorders nothing in a stream: a frame
// may arrive late, in parts or never, and every other fault shows as bytes that are no message or as a stream that
// ends. So a partition is a stream that is held, in one direction or both; loss, repetition and reordering are a stream
// that ends in the middle of a frame, or continues with bytes that are no frame.
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

/// One direction of a link. Single-threaded.
class modelled_stream {
 public:
  /// Each part of a frame takes `delay_min_ns` and up to `delay_max_ns` more, drawn at random; no part overtakes
  /// another.
  modelled_stream(std::function<int64_t()> now_ns, uint64_t seed, int64_t delay_max_ns, int64_t delay_min_ns = 0)
      : now_ns_(std::move(now_ns)), random_(seed), delay_max_ns_(delay_max_ns), delay_min_ns_(delay_min_ns) {}

  void send(const parcel& p);
  core::result<std::vector<parcel>> receive();

  /// Delivers nothing before `until_ns`.
  void hold(int64_t until_ns) { held_until_ns_ = std::max(held_until_ns_, until_ns); }
  /// Ends the stream after everything that was sent.
  void close();
  /// Drops everything that has not arrived, except perhaps a part of one frame, and ends the stream.
  void cut();
  /// Sends bytes that are no frame, after everything that was sent.
  void garble();

  /// Time at which there is something to receive, in ns; INT64_MAX if nothing is under way.
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

class modelled_link final : public polled_link {  ///< one end of a link; has no descriptor to poll
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
