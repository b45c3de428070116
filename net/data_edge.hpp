// Moves bytes over the connection to one other process: transfers and notes in both directions. Owns the protocol on
// the connection, the transfers in progress and their turns; leaves the set of processes to tls_mover.hpp.
//
// When receive() is called, the receiving end sends the frame `ready` with the size of its memory. When send() has
// been called on the sending end as well, that end sends the bytes in chunks. TLS reads and writes the memory that the
// callers passed, without another copy. Notes and `ready` are sent before chunks; several transfers take turns, one
// chunk each.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "fabric/wire/byte_mover.hpp"
#include "net/connector.hpp"
#include "net/data_frames.hpp"

namespace troupe::net {

class data_edge : public std::enable_shared_from_this<data_edge> {
 public:
  struct listeners {
    std::function<void(uint32_t from, std::string_view text)> note;
    std::function<void(uint32_t place, const core::error&)> lost;
  };
  data_edge(io_loop& loop, uint32_t place, connection c, const listeners& tell);

  /// Starts reading from and writing to the connection. Called once, on the loop's thread.
  void begin() { turn(); }

  // The following functions are callable from any thread.
  void send(const fabric::transfer_name& name, std::span<const std::byte> bytes, fabric::transfer_end tell);
  void receive(const fabric::transfer_name& name, std::span<std::byte> bytes, fabric::transfer_end tell);
  void note(std::string text);
  [[nodiscard]] fabric::moved_bytes moved() const { return {sent_bytes_, received_bytes_}; }
  [[nodiscard]] int64_t receiving_ns() const { return receiving_ns_; }

  /// Closes the connection and ends all transfers with the error `why`. Called on the loop's thread, or when the loop
  /// is stopped.
  void end(const core::error& why);

 private:
  struct outgoing {
    std::span<const std::byte> bytes;
    fabric::transfer_end tell;
    size_t sent = 0;
    bool is_ready = false;  ///< true if the other end is ready to receive the transfer
  };
  struct incoming {
    std::span<std::byte> bytes;
    fabric::transfer_end tell;
    size_t got = 0;
  };
  struct ended_transfer {
    fabric::transfer_end tell;
    core::result<void> how;
  };

  void turn();
  core::result<bool> write();
  core::result<bool> read();
  bool next_frame();
  void end_chunk();
  core::result<void> hear_frame();
  core::result<void> hear_ready();
  core::result<void> hear_data();
  void end_payload();
  void compare(const fabric::transfer_name& name, outgoing& x, uint64_t wanted);
  void say_urgently(const data_frame& f, std::string_view payload = {});
  void wake();
  void tell_ended();
  void lose(const core::error& why);
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool has_too_much() const;
  [[nodiscard]] core::error of_transfer(const fabric::transfer_name& name, const char* what, uint64_t ours,
                                        uint64_t theirs) const;

  io_loop& loop_;
  const uint32_t place_;
  const listeners& tell_;

  // Only the loop's thread uses the members from with_ to coming_since_ns_.
  connection with_;
  std::string head_out_;  ///< bytes to send: the head of a frame, or all of a short frame
  size_t head_sent_ = 0;
  std::span<const std::byte> chunk_;  ///< bytes of transfer `chunk_name_` to send after the head
  size_t chunk_bytes_ = 0;
  fabric::transfer_name chunk_name_;
  std::array<std::byte, sizeof(data_frame)> head_in_{};
  size_t head_got_ = 0;
  data_frame frame_{};
  std::span<std::byte> payload_;  ///< memory for the bytes of the current frame that are still to arrive
  std::string note_;
  uint32_t coming_in_ = 0;  ///< number of incoming transfers that have begun to arrive and are incomplete
  int64_t coming_since_ns_ = 0;

  std::atomic<uint64_t> sent_bytes_{0}, received_bytes_{0};
  std::atomic<int64_t> receiving_ns_{0};

  mutable std::mutex mutex_;
  std::map<fabric::transfer_name, outgoing> sends_;
  std::map<fabric::transfer_name, incoming> receives_;
  /// Number of bytes that the other end is ready to receive, for each transfer that this end has not begun to send.
  std::map<fabric::transfer_name, uint64_t> readies_;
  std::deque<std::string> urgent_;
  size_t urgent_bytes_ = 0;
  std::deque<fabric::transfer_name> turns_;
  std::deque<ended_transfer> ended_;
  std::optional<core::error> over_;
  bool is_woken_ = false;
};

}  // namespace troupe::net
