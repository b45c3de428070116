// An edge between the supervisor of a job and one of its processes: parcels in order, both ways. Owns their frames and
// the queue of what the other end has not taken yet. Real ones are socket pairs that a process inherits; nothing
// listens. tests/fakes/link.hpp has one for simulations.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/messages.hpp"

namespace troupe::cluster {

/// Longest message, and how much may wait for an end that does not read.
inline constexpr uint64_t frame_bytes_max = uint64_t{256} << 20, waiting_bytes_max = uint64_t{512} << 20;
/// Descriptors of one message.
inline constexpr size_t descriptors_max = 4;

class link {  ///< one end of an edge
 public:
  virtual ~link() = default;
  /// Any thread; never waits. Errors: limit, beyond the two above; peer_lost, where the other end has gone.
  virtual core::result<void> send(parcel p) = 0;
  /// What has come since, in order; one thread. Errors: peer_lost, where the other end has gone and everything has been
  /// taken; mismatch, for bytes that are no message; limit, where this process may have no more open files.
  virtual core::result<std::vector<parcel>> receive() = 0;
};

class polled_link : public link {  ///< one that a poll loop can wait for
 public:
  /// A descriptor that is readable when `receive` has something to say.
  [[nodiscard]] virtual int number() const = 0;
  /// Whether `flush` is to be called when the descriptor is writable.
  [[nodiscard]] virtual bool has_waiting() const { return false; }
  /// Sends what waits, as far as the other end takes it.
  virtual core::result<void> flush() { return {}; }
};

/// Frames out of a stream of bytes and the descriptors that came beside them.
class frame_reader {
 public:
  void add(std::string_view bytes) { waiting_ += bytes; }
  void add(shared_descriptor d) { descriptors_.push_back(std::move(d)); }
  /// The next whole frame; none yet: nothing. Errors: mismatch.
  core::result<std::optional<parcel>> next();

 private:
  std::string waiting_;
  std::deque<shared_descriptor> descriptors_;
};

/// The bytes of a message that travels with so many descriptors.
std::string frame_of(const message& m, size_t num_descriptors);

class socket_link final : public polled_link {  ///< between processes of a machine
 public:
  /// `end` is one of a pair of connected stream sockets.
  explicit socket_link(shared_descriptor end);

  core::result<void> send(parcel p) override;
  core::result<std::vector<parcel>> receive() override;
  core::result<void> flush() override;
  [[nodiscard]] bool has_waiting() const override;
  [[nodiscard]] int number() const override { return end_->number(); }

 private:
  struct outgoing {
    std::string bytes;
    std::vector<shared_descriptor> with;
    size_t sent = 0;
  };
  core::result<void> flush_locked();

  shared_descriptor end_;
  mutable std::mutex mutex_;
  std::deque<outgoing> out_;
  uint64_t waiting_bytes_ = 0;
  frame_reader in_;
};

/// A connected pair; the second is inherited by a process that is started. Errors: limit.
core::result<std::pair<shared_descriptor, shared_descriptor>> make_pair();

}  // namespace troupe::cluster
