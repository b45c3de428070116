// Declares the link between the supervisor of a job and one of its processes: parcels (messages with descriptors) in
// order, in both directions. Owns the frames of parcels and the queue of bytes that the other end has not read yet.
// Links on one machine are socket pairs; a process inherits its end, so no socket listens.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/messages.hpp"

namespace troupe::cluster {

/// Bytes of the longest message, and bytes that may be queued for an end that does not read.
inline constexpr uint64_t frame_bytes_max = uint64_t{256} << 20, waiting_bytes_max = uint64_t{512} << 20;
/// Number of descriptors that one message can carry.
inline constexpr size_t descriptors_max = 4;

class link {  ///< one end of a connection that carries messages between two processes
 public:
  virtual ~link() = default;
  /// Sends a parcel. Callable from any thread; never blocks. Errors: limit, beyond frame_bytes_max or
  /// waiting_bytes_max; peer_lost, if the other end has gone.
  virtual core::result<void> send(parcel p) = 0;
  /// Returns the parcels received since the last call, in order. Called by one thread. Errors: peer_lost, if the other
  /// end has gone and every parcel has been taken; mismatch, for bytes that are not a message; limit, if this process
  /// may have no more open files.
  virtual core::result<std::vector<parcel>> receive() = 0;
};

class polled_link : public link {  ///< a link that a poll loop can wait for
 public:
  /// Returns a descriptor that is readable when `receive` has a parcel or an error.
  [[nodiscard]] virtual int number() const = 0;
  /// True if `flush` is to be called when the descriptor is writable.
  [[nodiscard]] virtual bool has_waiting() const { return false; }
  /// Sends queued bytes as far as the other end accepts them without blocking.
  virtual core::result<void> flush() { return {}; }
};

/// Assembles the frames of messages from a received stream of bytes and descriptors.
class frame_reader {
 public:
  void add(std::string_view bytes) { waiting_ += bytes; }
  void add(shared_descriptor d) { descriptors_.push_back(std::move(d)); }
  /// Returns the next frame (encoded message) of the received bytes; nothing if it is incomplete. Errors: mismatch.
  core::result<std::optional<parcel>> next();

 private:
  std::string waiting_;
  std::deque<shared_descriptor> descriptors_;
};

/// Returns the frame of a message that carries `num_descriptors` descriptors.
std::string frame_of(const message& m, size_t num_descriptors);

class socket_link final : public polled_link {  ///< link between processes of a machine
 public:
  /// Creates a link over `end`, one of a pair of connected stream sockets.
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

/// Creates a connected pair of sockets; a started process inherits the second. Errors: limit.
core::result<std::pair<shared_descriptor, shared_descriptor>> make_pair();

}  // namespace troupe::cluster
