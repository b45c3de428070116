// Owns standard output and error of a program that runs a job. Printed bytes go into memory and a thread writes them,
// so that an unread pipe, a stopped terminal or a full disk delays neither a step nor the end. Decides how many waiting
// bytes are kept and how long the end waits for a reader.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::apps {

/// Limit of the bytes that wait for a reader; further whole lines are dropped.
inline constexpr size_t output_waits_bytes_max = size_t{1} << 20;
/// Longest time that the end of a program waits for a reader of its output that does not read.
inline constexpr std::chrono::milliseconds output_patience{2000};
/// Longest time that the end of a program waits for a regular file, which has no reader, to take further bytes.
inline constexpr std::chrono::milliseconds file_patience{60'000};

/// Relays bytes to one descriptor whose reader may block. Any thread may write.
class output_relay {
 public:
  using loss_listener = std::function<void(const std::string&)>;

  /// Starts the thread. Throws std::system_error if the system refuses it. `name` is the stream's name in messages.
  output_relay(int descriptor, std::string name);
  ~output_relay();  ///< returns without waiting for the thread, which may be blocked in a write
  output_relay(const output_relay&) = delete;
  output_relay& operator=(const output_relay&) = delete;

  void write(std::string_view bytes);
  /// Waits while a reader reads the remaining bytes; if it stops reading, waits for `patience` and then drops them.
  void drain(std::chrono::milliseconds patience);
  /// Returns why bytes were not written, such as "No space left on device"; empty if none were lost.
  [[nodiscard]] std::string loss() const;
  /// Sets `tell`, which is called once, on any thread, when bytes are lost, or immediately if bytes have been lost.
  /// Waits for a call of the previous function to end. Null sets no function.
  void on_loss(loss_listener tell);

 private:
  struct shared;
  /// Shared with the thread, which a blocked write may keep alive longer than this object
  std::shared_ptr<shared> state_;
};

/// Sends `stdout`, `stderr` and their C++ streams through relays while this object lives.
class console {
 public:
  console();  ///< if the system refuses a thread, the streams stay unchanged
  ~console();
  console(const console&) = delete;
  console& operator=(const console&) = delete;

  /// Sets the function that receives a sentence for the run's log when standard output loses bytes.
  void on_loss(output_relay::loss_listener tell);
  /// Writes the remaining bytes and restores the streams. Returns `code`, or 1 instead of 0 if standard output lost
  /// bytes. A terminal never counts as a loss. Later calls change nothing.
  int end(int code);

 private:
  struct streams;
  streams* now_ = nullptr;  ///< never freed, because a thread may still print while the program ends
  streams* before_ = nullptr;
};

}  // namespace troupe::apps
